"""Who watches which job: states come in here, once for all who watch, and go out to each.

Everything here runs on one event loop; what reads the database does so in a thread, in batches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import InterfaceError, OperationalError

from reports.logs import log_without_values
from reports.models import Status
from streams import frames, marks, rows
from streams.marks import Mark

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator
    from concurrent.futures import Executor
    from uuid import UUID

    from streams.rights import Right
    from streams.views import Opening

    Texts = Callable[[Collection[UUID]], Awaitable[dict[UUID, str]]]

# Hints that come together are read together.
GATHER_S = 0.005

TEXT_GATHER_S = 0.1

logger = logging.getLogger(__name__)


async def _no_texts(_: Collection[UUID]) -> dict[UUID, str]:
    return {}


class Watched:
    """One job that somebody watches, its last state, and what there is of its text."""

    __slots__ = ("event", "state", "streams", "text")

    def __init__(self, state: str) -> None:
        self.state = state
        self.event = b""  # of that state; empty while nobody who watches lacks it
        self.text = ""
        self.streams: set[Stream] = set()

    @property
    def is_running(self) -> bool:
        """Whether its text may be growing."""
        return self.state.endswith(Status.RUNNING)


class Stream:
    """One client's place: what it has seen, and whether there is more.

    A slow reader misses nothing but states that had passed by the time it read on: what waits for
    it is one state, never a line of them.
    """

    __slots__ = ("_has_left", "_job", "_news", "_offset", "_seen", "is_over", "job_id", "right")

    def __init__(self, opening: Opening, job: Watched) -> None:
        self.job_id = opening.job_id
        self.right = opening.right
        self.is_over = False
        self._has_left = False
        self._job = job
        self._seen = opening.seen.state
        self._offset = opening.seen.offset
        self._news = asyncio.Event()

    def tell(self, *, is_last: bool = False) -> None:
        """Wake the client's side; after the last time nothing more comes."""
        self.is_over = self.is_over or is_last
        self._news.set()

    def leave(self) -> None:
        """The client has left: nothing is sent any more."""
        self._has_left = True
        self.tell(is_last=True)

    async def wait(self, within_s: float) -> bool:
        """Whether there was news in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._news.wait()
        was_told = self._news.is_set()
        self._news.clear()
        return was_told

    def take(self) -> Iterator[bytes]:
        """What the client lacks."""
        if self._has_left:
            return
        job = self._job
        # Another client may have made us read a state that is older than what this one was told.
        if (
            job.event
            and self._seen != job.state
            and marks.since(job.state) >= marks.since(self._seen)
        ):
            self._seen, self._offset = job.state, 0
            yield job.event
        # A text belongs to a state, so that it never begins anew within one.
        if job.is_running and self._seen == job.state and len(job.text) > self._offset:
            begin, self._offset = self._offset, len(job.text)
            mark = Mark(job.state, self._offset)
            yield frames.text(mark, offset=begin, part=job.text[begin:])


class Hub:
    """All streams of this process."""

    def __init__(
        self, reader: Executor, follow: Callable[[], None] = lambda: None, texts: Texts = _no_texts
    ) -> None:
        self._reader = reader
        self._follow = follow
        self._texts = texts
        self._jobs: dict[UUID, Watched] = {}
        self._hinted: set[UUID] = set()
        self._wake = asyncio.Event()
        self._grown: set[UUID] = set()
        self._has_grown = asyncio.Event()
        self._is_closing = False
        self._was_read = True
        self.emptied = asyncio.Event()  # closed, and everybody has left

    @property
    def jobs(self) -> Collection[UUID]:
        """The jobs that somebody watches."""
        return self._jobs.keys()

    def join(self, opening: Opening) -> Stream:
        """A place for a client that has seen the job's state of just now."""
        job = self._jobs.get(opening.job_id)
        if job is None:
            job = self._jobs[opening.job_id] = Watched(opening.seen.state)
            self._follow()
            # A hint that came since the client's state was read has found nobody.
            self.hint(opening.job_id)
        stream = Stream(opening, job)
        job.streams.add(stream)
        stream.tell(is_last=self._is_closing)
        if job.state != opening.seen.state:
            self.hint(opening.job_id)
        return stream

    def leave(self, stream: Stream) -> None:
        """Give the place back."""
        job = self._jobs[stream.job_id]
        job.streams.discard(stream)
        if not job.streams:
            del self._jobs[stream.job_id]
            self._follow()
        self._note_emptied()

    def close(self) -> None:
        """End every stream, also those that come; their clients go elsewhere and resume."""
        self._is_closing = True
        self._has_grown.set()
        for job in self._jobs.values():
            for stream in job.streams:
                stream.tell(is_last=True)
        self._note_emptied()

    def _note_emptied(self) -> None:
        if self._is_closing and not self._jobs:
            self.emptied.set()

    def hint(self, job_id: UUID) -> None:
        """A job may have changed."""
        if job_id in self._jobs:
            self._hinted.add(job_id)
            self._wake.set()
            self.hint_at_text(job_id)

    def hint_at_text(self, job_id: UUID) -> None:
        """There may be more of a job's text."""
        if job_id in self._jobs:
            self._grown.add(job_id)
            self._has_grown.set()

    async def read_texts(self) -> None:
        """Read the texts that were hinted at, until it closes; all that are due at once."""
        # The client's waits take a cancellation for a lost connection now and then.
        while not self._is_closing:
            await self._has_grown.wait()
            self._has_grown.clear()
            grown, self._grown = self._grown & self._jobs.keys(), set()
            for job_id, text in (await self._texts(grown)).items():
                if job := self._jobs.get(job_id):
                    job.text = text
                    for stream in job.streams:
                        stream.tell()
            await asyncio.sleep(TEXT_GATHER_S)

    async def run(self) -> None:
        """Read what was hinted at, and from time to time everything, for ever."""
        look_at = time.monotonic() + settings.EVENTS_POLL_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(_loop_time(look_at)):
                    await self._wake.wait()
                    await asyncio.sleep(GATHER_S)
            self._wake.clear()
            hinted, self._hinted = self._hinted & self._jobs.keys(), set()
            is_due = time.monotonic() >= look_at
            if is_due:
                look_at = time.monotonic() + settings.EVENTS_POLL_S
            try:
                await self._read(hinted, everything=is_due)
            except (OperationalError, InterfaceError) as error:
                self._say(error)
            else:
                self._say(None)

    async def _read(self, hinted: Collection[UUID], *, everything: bool) -> None:
        loop = asyncio.get_running_loop()
        if hinted:
            self.spread(await loop.run_in_executor(self._reader, rows.states, hinted))
        if everything and self._jobs:
            known = {job_id: job.state for job_id, job in self._jobs.items()}
            watchers = {stream.right for job in self._jobs.values() for stream in job.streams}
            changed = rows.changed
            found, lost = await loop.run_in_executor(self._reader, changed, known, watchers)
            self.spread(found)
            self._turn_away(lost)

    def spread(self, found: rows.States) -> None:
        """Tell everybody who does not know it yet."""
        for job_id, now in found.items():
            job = self._jobs.get(job_id)  # all may have left meanwhile
            if job is None:
                continue
            if now is None:
                for stream in job.streams:
                    stream.tell(is_last=True)
            elif now.word != job.state or not job.event:
                job.state, job.event = now.word, now.event
                job.text = ""
                for stream in job.streams:
                    stream.tell(is_last=now.is_last)

    def _turn_away(self, lost: Collection[Right]) -> None:
        for job in self._jobs.values():
            for stream in job.streams:
                if stream.right in lost:
                    stream.tell(is_last=True)

    def _say(self, error: Exception | None) -> None:
        if error is not None and self._was_read:
            log_without_values(error, "the database is away; streams wait for it")
        self._was_read = error is None


def _loop_time(moment: float) -> float:
    """An instant of `time.monotonic` on the loop's clock."""
    return asyncio.get_running_loop().time() + moment - time.monotonic()
