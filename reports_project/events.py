"""`python -m reports_project.events`: check the settings, then stream events on one loop."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
from contextlib import suppress

from granian.constants import Interfaces
from granian.server.embed import Server

from reports_project import settings, web
from streams import crowd
from streams.application import Application, complain
from telemetry import relay

BACKLOG = 1024
# Requests that are refused or answered at once come beside the streams.
BESIDE = 200
# What the clients have to take the ends of their streams, before the connections are cut.
END_S = 2.0


def main() -> None:
    """Serve until SIGTERM or SIGINT; every stream then ends, and its client resumes elsewhere."""
    web.refuse_a_place_that_is_not_to_be_had("EVENTS_PORT", settings.EVENTS_PORT)
    _allow_many_connections()
    logging.getLogger("_granian").setLevel(logging.ERROR)
    relay.start("events", lambda: {"streams": crowd.count()})
    asyncio.run(_serve())


async def _serve() -> None:
    application = Application()
    server = Server(
        application,
        address=settings.HOST,
        port=settings.EVENTS_PORT,
        interface=Interfaces.ASGINL,
        websockets=False,
        backlog=BACKLOG,
        backpressure=settings.EVENTS_MAX + BESIDE,
        log_enabled=False,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    feeding = asyncio.create_task(application.run())
    feeding.add_done_callback(complain)
    feeding.add_done_callback(lambda _: stop.set())
    serving = asyncio.create_task(server.serve())
    serving.add_done_callback(lambda _: stop.set())
    await stop.wait()
    has_failed = feeding.done() or serving.done()
    await application.close(within_s=END_S)
    feeding.cancel()
    if not serving.done():
        server.stop()  # type: ignore[no-untyped-call]  # published so
    with suppress(TimeoutError):
        await asyncio.wait_for(serving, END_S)
    if has_failed:
        raise SystemExit(1)


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
