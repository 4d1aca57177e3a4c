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
from streams import rows
from streams.openai import OPENAI
from streams.ours import OURS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator
    from concurrent.futures import Executor
    from uuid import UUID

    from streams.dialects import AnyDialect, AnyState
    from streams.rights import Right
    from streams.rows import Topic
    from streams.views import Opening

    Texts = Callable[[Collection[UUID]], Awaitable[dict[UUID, str]]]

# Hints that come together are read together.
GATHER_S = 0.005

TEXT_GATHER_S = 0.1
DIALECTS: tuple[AnyDialect, ...] = (OURS, OPENAI)

logger = logging.getLogger(__name__)


async def _no_texts(_: Collection[UUID]) -> dict[UUID, str]:
    return {}


class Watched:
    """One job that somebody watches in one dialect, its last state, what there is of its text."""

    __slots__ = ("state", "streams", "word", "written")

    def __init__(self, word: str) -> None:
        self.word = word
        self.state: AnyState | None = None  # that of the word, once it was read
        self.written = ""
        self.streams: set[Stream] = set()

    @property
    def text(self) -> str:
        """What there is of it while it may be growing."""
        return self.written if self.word.endswith(Status.RUNNING) else ""

    def move(self, state: AnyState) -> None:
        """Tell everybody of a state; a text belongs to one and never grows on in another."""
        if state.word != self.word:
            self.written = ""
        self.word, self.state = state.word, state
        for stream in self.streams:
            stream.tell(is_last=state.is_last)

    def grow(self, text: str) -> None:
        """Tell everybody that there is more of the text."""
        self.written = text
        for stream in self.streams:
            stream.tell()


class Stream:
    """One client's place: what it has seen, and whether there is more.

    What waits for a slow reader is one state, never a line of them.
    """

    __slots__ = ("_has_left", "_job", "_news", "_seen", "is_over", "right", "topic")

    def __init__(self, opening: Opening, job: Watched) -> None:
        self.topic = opening.topic
        self.right = opening.right
        self.is_over = False
        self._has_left = False
        self._job = job
        self._seen = opening.seen
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
        state, (_, dialect) = self._job.state, self.topic
        if self._has_left or state is None:
            return
        for seen, piece in dialect.lacking(self._seen, state, self._job.text):
            self._seen = seen
            yield piece


class Hub:
    """All streams of this process."""

    def __init__(
        self, reader: Executor, follow: Callable[[], None] = lambda: None, texts: Texts = _no_texts
    ) -> None:
        self._reader = reader
        self._follow = follow
        self._texts = texts
        self._jobs: dict[Topic, Watched] = {}
        self._hinted: set[Topic] = set()
        self._wake = asyncio.Event()
        self._grown: set[UUID] = set()
        self._has_grown = asyncio.Event()
        self._is_closing = False
        self._was_read = True
        self.emptied = asyncio.Event()  # closed, and everybody has left

    @property
    def jobs(self) -> set[UUID]:
        """The jobs that somebody watches."""
        return {job_id for job_id, _ in self._jobs}

    def join(self, opening: Opening) -> Stream:
        """A place for a client that has seen the job's state of just now."""
        job = self._jobs.get(opening.topic)
        if job is None:
            job = self._jobs[opening.topic] = Watched(opening.word)
            self._follow()
            # A hint that came since the client's state was read has found nobody.
            self.hint(opening.job_id)
        stream = Stream(opening, job)
        job.streams.add(stream)
        stream.tell(is_last=self._is_closing)
        if job.word != opening.word:
            self.hint(opening.job_id)
        return stream

    def leave(self, stream: Stream) -> None:
        """Give the place back."""
        job = self._jobs[stream.topic]
        job.streams.discard(stream)
        if not job.streams:
            del self._jobs[stream.topic]
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
        if topics := self._topics(job_id):
            self._hinted.update(topics)
            self._wake.set()
            self.hint_at_text(job_id)

    def hint_at_text(self, job_id: UUID) -> None:
        """There may be more of a job's text."""
        if self._topics(job_id):
            self._grown.add(job_id)
            self._has_grown.set()

    def _topics(self, job_id: UUID) -> list[Topic]:
        """In which dialects somebody watches a job."""
        return [topic for dialect in DIALECTS if (topic := (job_id, dialect)) in self._jobs]

    async def read_texts(self) -> None:
        """Read the texts that were hinted at, until it closes; all that are due at once."""
        # The client's waits take a cancellation for a lost connection now and then.
        while not self._is_closing:
            await self._has_grown.wait()
            self._has_grown.clear()
            grown, self._grown = self._grown & self.jobs, set()
            for job_id, text in (await self._texts(grown)).items():
                for topic in self._topics(job_id):
                    self._jobs[topic].grow(text)
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

    async def _read(self, hinted: Collection[Topic], *, everything: bool) -> None:
        loop = asyncio.get_running_loop()
        if hinted:
            self.spread(await loop.run_in_executor(self._reader, rows.states, hinted))
        if everything and self._jobs:
            known = {topic: job.word for topic, job in self._jobs.items()}
            watchers = {stream.right for job in self._jobs.values() for stream in job.streams}
            changed = rows.changed
            found, lost = await loop.run_in_executor(self._reader, changed, known, watchers)
            self.spread(found)
            self._turn_away(lost)

    def spread(self, found: rows.States) -> None:
        """Tell everybody who does not know it yet."""
        for topic, now in found.items():
            job = self._jobs.get(topic)  # all may have left meanwhile
            if job is None:
                continue
            if now is None:
                for stream in job.streams:
                    stream.tell(is_last=True)
            elif now.word != job.word or job.state is None:
                job.move(now)

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
