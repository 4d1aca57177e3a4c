"""The events process's front door: Django opens a stream in a thread, the event loop goes on."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reports import hints
from reports.errors import NotFound
from reports.logs import log_without_values
from reports_project import asgi
from streams import crowd, frames, passing
from streams.ears import Ears
from streams.hub import Hub
from streams.views import OPENING

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from uuid import UUID

    from reports_project.asgi import Answer, Receive, Send
    from streams.hub import Stream
    from streams.views import Opening

# Each holds a connection to the database while it opens a stream, and none afterwards.
OPENERS = 2
KEEP_ALIVE_S = 15
# Who reads nothing for so long has left, whatever the network says.
SLOWEST_READ_S = 60

logger = logging.getLogger(__name__)


class Application:
    """ASGI 3, without its lifespan: `run` is called beside it."""

    def __init__(self) -> None:
        self._openers = ThreadPoolExecutor(OPENERS, thread_name_prefix="opener")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reader")
        self._ears = Ears(self._heard)
        self.hub = Hub(self._reader, self._ears.look_again, self._ears.texts)
        self._ears.follow(lambda: self.hub.jobs)

    async def run(self) -> None:
        """Keep the streams fed, for ever; an exception here is a fault of ours."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.hub.run())
            tasks.create_task(self.hub.read_texts())
            tasks.create_task(self._ears.run())

    async def close(self, *, within_s: float) -> None:
        """End every stream, and wait until their clients have taken it."""
        self._ears.stop()
        self.hub.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self.hub.emptied.wait()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request, of whatever kind; one for events may take as long as its job."""
        if scope["type"] != "http":
            return
        if not (passing.route(scope) or scope["path"].rstrip("/") == asgi.HEALTH):
            # The rest of the site has a process of its own.
            await asgi.send_answer(send, asgi.refuse(NotFound(), scope["path"]))
            return
        answer = await asgi.arrive(scope, receive)
        if isinstance(answer, bytes):
            await self._answer(asgi.environ_of(scope, answer), receive, send)
        elif answer is not None:
            await asgi.send_answer(send, answer)

    async def _answer(self, environ: dict[str, Any], receive: Receive, send: Send) -> None:
        environ[OPENING] = None
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._openers, asgi.call_django, environ)
        opening: Opening | None = environ[OPENING]
        environ.clear()  # a stream may stay for an hour, and there are thousands
        if opening is None:
            await asgi.send_answer(send, answer)
            return
        try:
            await self._go_on(opening, answer, receive, send)
        finally:
            crowd.leave(opening.right.user_id)

    async def _go_on(self, opening: Opening, answer: Answer, receive: Receive, send: Send) -> None:
        status, headers, first = answer
        endless = [pair for pair in headers if pair[0] != b"content-length"]
        stream = self.hub.join(opening)
        leaving = asyncio.ensure_future(_left(receive))
        leaving.add_done_callback(lambda _: stream.leave())
        try:
            await send({"type": "http.response.start", "status": status, "headers": endless})
            await _send(send, first)
            await write(stream, send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            logger.info("a client that reads nothing was left")
        finally:
            leaving.cancel()
            self.hub.leave(stream)

    def _heard(self, job_id: UUID, word: str) -> None:
        if word == hints.GREW:
            self.hub.hint_at_text(job_id)
        else:
            self.hub.hint(job_id)


async def write(stream: Stream, send: Send) -> None:
    """Send what comes until it is over. Raises TimeoutError when the client takes nothing."""
    while True:
        was_told = await stream.wait(KEEP_ALIVE_S)
        is_over = stream.is_over
        for piece in stream.take():
            await _send(send, piece)
        if is_over:
            return
        if not was_told:
            await _send(send, frames.STILL_HERE)


async def _send(send: Send, piece: bytes) -> None:
    async with asyncio.timeout(SLOWEST_READ_S):
        await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def complain(task: asyncio.Task[None]) -> None:
    """Log why what feeds the streams has ended, unless it was told to."""
    if not task.cancelled() and (error := task.exception()):
        log_without_values(error, "the streams are not fed any more")
