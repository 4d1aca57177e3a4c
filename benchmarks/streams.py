"""Two thousand open streams in one events process: what they cost, and how late events come.

    python -m benchmarks.streams [--streams 2000] [--jobs 200] [--idle 10] [--openai]

Starts its own PostgreSQL, Valkey and events process. Each job is claimed and ends while everybody
watches. Exit status 1 if the process grew over 200 MB, kept a connection for a stream, or if one
stream missed one event. `--openai` watches /v1/responses/{id}?stream=true instead of
/reports/{id}/events.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil

from benchmarks.retention import answers, process, services
from tools import valkey

if TYPE_CHECKING:
    from uuid import UUID

    from django.contrib.auth.models import User

MOST_BYTES = 200 * 1024 * 1024
MOST_CONNECTIONS = 6
JOBS_A_USER = 20
OPENING = 50
WITHIN_S = 120
STEP_S = 0.01
# Of the lines that name a state: how they begin, and the states that they name.
LINES = {
    False: (b"id: ", {"running": "running", "succeeded": "succeeded"}),
    True: (b"event: ", {"response.in_progress": "running", "response.completed": "succeeded"}),
}


@dataclass(slots=True)
class Watcher:
    """One open stream: when each state of its job came."""

    job_id: UUID
    token: str
    is_openai: bool
    came: dict[str, float] = field(default_factory=dict)
    is_over: bool = False
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def watch(self, port: int, gate: asyncio.Semaphore) -> None:
        """Until the stream ends."""
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
            path = f"/reports/{self.job_id}/events"
            if self.is_openai:
                path = f"/v1/responses/resp_{self.job_id.hex}?stream=true"
            writer.write(
                f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {self.token}\r\n\r\n".encode()
            )
            await self._next(reader)
        self.opened.set()
        while not self.is_over:
            await self._next(reader)
        writer.close()

    async def _next(self, reader: asyncio.StreamReader) -> None:
        begin, states = LINES[self.is_openai]
        line = await reader.readline()
        while line and not line.startswith(begin):
            line = await reader.readline()
        self.is_over = not line
        word = re.split("[ -]", line.decode().strip())[-1]
        if word in states:
            self.came[states[word]] = time.monotonic()


@dataclass(frozen=True, slots=True)
class Cost:
    """What the process takes."""

    rss: int
    threads: int
    database: int
    broker: int
    cpu_s: float

    @classmethod
    def of(cls, events: psutil.Process) -> Cost:
        """Now."""
        database, broker = (
            sum(_port(link) == urlsplit(os.environ[name]).port for link in events.net_connections())
            for name in ("DATABASE_URL", "REDIS_URL")
        )
        times, rss = events.cpu_times(), events.memory_info().rss
        return cls(rss, events.num_threads(), database, broker, times.user + times.system)

    def __str__(self) -> str:
        links = f"{self.database} connections to the database, {self.broker} to the broker"
        return f"{self.rss / 1024 / 1024:.0f} MB, {self.threads} threads, {links}"


def _port(link: Any) -> int | None:
    """Of the other side; None: nobody is there."""
    return link.raddr.port if link.raddr else None


def fill(jobs: int, streams: int, *, is_openai: bool) -> list[Watcher]:
    """Queued jobs of several users, and who watches them."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs django.setup()

    from access.models import Token  # noqa: PLC0415  # likewise

    watchers: list[Watcher] = []
    for number in range(-(-jobs // JOBS_A_USER)):
        user = get_user_model().objects.create_user(f"watcher-{number}")
        token = str(Token.objects.create(user)[1])
        watchers += [Watcher(job_id, token, is_openai) for job_id in accept(user, JOBS_A_USER)]
    watchers = watchers[:jobs]
    return [
        Watcher(watchers[number % jobs].job_id, watchers[number % jobs].token, is_openai)
        for number in range(streams)
    ]


def accept(user: User, jobs: int) -> list[UUID]:
    """Jobs as a client would make them; nobody runs them but us."""
    from reports import acceptance  # noqa: PLC0415  # needs django.setup()

    user_id = int(user.pk)
    keys = [f"job-{number}" for number in range(jobs)]
    return [acceptance.accept(user_id, key=key, prompt="hello").job_id for key in keys]


def run(job_id: UUID) -> dict[str, float]:
    """Claim a job and end it; when each of both was committed."""
    from reports import transitions  # noqa: PLC0415  # needs django.setup()
    from reports.provider import Completion  # noqa: PLC0415  # likewise

    held = transitions.claim(job_id)
    assert held is not None  # noqa: S101  # nobody else runs them
    claimed_at = time.monotonic()
    time.sleep(STEP_S)
    transitions.succeed(held, Completion("hello", "stop"))
    return {"running": claimed_at, "succeeded": time.monotonic()}


async def measure(
    events: psutil.Process, watchers: list[Watcher], *, port: int, idle_s: float
) -> bool:
    """Open all, wait, let everything happen; print what was seen."""
    print("before:  ", Cost.of(events))
    began = time.monotonic()
    gate = asyncio.Semaphore(OPENING)
    tasks = [asyncio.create_task(watcher.watch(port, gate)) for watcher in watchers]
    await asyncio.gather(*(watcher.opened.wait() for watcher in watchers))
    print(f"opened:   {len(watchers)} streams in {time.monotonic() - began:.1f} s")
    open_ = Cost.of(events)
    await asyncio.sleep(idle_s)
    idle = Cost.of(events)
    share = 100 * (idle.cpu_s - open_.cpu_s) / idle_s
    print(f"open:     {idle}; {share:.0f} % of a CPU while nothing happens")
    done = {}
    for job_id in {watcher.job_id: None for watcher in watchers}:
        done[job_id] = await asyncio.to_thread(run, job_id)
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*tasks)
    delays = [
        1000 * (watcher.came[state] - at)
        for watcher in watchers
        for state, at in done[watcher.job_id].items()
        if state in watcher.came
    ]
    most = Cost.of(events)
    print("after:   ", most)
    cuts = statistics.quantiles(delays, n=100)
    print(f"events:   p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms, most {max(delays):.0f} ms")
    missed = sum("succeeded" not in watcher.came for watcher in watchers)
    print(f"missed:   {missed} endings; {2 * len(watchers) - len(delays)} events were passed over")
    links = max(idle.database + idle.broker, most.database + most.broker)
    return not missed and max(idle.rss, most.rss) < MOST_BYTES and links <= MOST_CONNECTIONS


def main() -> int:
    """Exit status 0 if it stayed small and nobody missed anything."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--streams", type=int, default=2000)
    words.add_argument("--jobs", type=int, default=200)
    words.add_argument("--idle", type=float, default=10.0)
    words.add_argument("--openai", action="store_true")
    given = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    parent = "/tmp" if os.geteuid() == 0 else None  # noqa: S108  # mkdtemp makes the name safe
    with tempfile.TemporaryDirectory(dir=parent) as name, ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o711)
        services(stack, directory, sqlite=False, delete=False)
        port = valkey.free_port()
        a_user = -(-given.streams * JOBS_A_USER // given.jobs)
        a_user_has = str(max(100, a_user))
        os.environ.update(EVENTS_PORT=str(port), EVENTS_PER_USER=a_user_has, LOG_LEVEL="WARNING")
        import django  # noqa: PLC0415  # the environment is only there now
        from django.core.management import call_command  # noqa: PLC0415  # likewise

        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
        watchers = fill(given.jobs, given.streams, is_openai=given.openai)
        child = process(stack, directory, "-m", "reports_project.events")
        while not answers(f"http://127.0.0.1:{port}"):
            time.sleep(0.1)
        events = psutil.Process(child.pid)
        fine = asyncio.run(measure(events, watchers, port=port, idle_s=given.idle))
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
