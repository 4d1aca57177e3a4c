"""Passes texts on while they are being written, to whoever watches: never through the row.

The text so far lies under a key of the broker that ends with the job's lease; a hint on the job's
channel says that it grew. One thread looks at all texts of the process four times a second, so
that a call costs nothing for it, and a text that nobody watches costs one empty hint a second.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis
from django.conf import settings

from reports import hints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from reports.provider import Growing

EVERY_S = 0.25
# Of a text that nobody watches, only every so many times: has somebody come?
ASKS_EVERY = 4
# Beyond so many bytes a text is not passed on any further; its end will be in the row.
LONGEST = 64 * 1024
PAUSE_S = 1.0

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Following:
    """One text: what was told of it, and whether somebody watches."""

    job_id: UUID
    growing: Growing
    ends_at: float  # `time.monotonic`
    told: int = 0
    looks: int = 0
    is_watched: bool = False

    def is_due(self) -> bool:
        """Whether there is something to tell now, or to ask."""
        if not self.told < self.growing.size <= LONGEST or self.ends_at <= time.monotonic():
            return False
        self.looks += 1
        return self.is_watched or self.looks % ASKS_EVERY == 1


class Scribe:
    """The thread, and the texts that it looks at."""

    def __init__(self) -> None:
        self._some = threading.Condition()
        self._followed: list[Following] = []
        self._ended: list[UUID] = []
        self._thread: threading.Thread | None = None
        self._is_away = False

    @contextmanager
    def following(self, job_id: UUID, growing: Growing, *, ends_at: float) -> Iterator[None]:
        """Pass a text on inside the block, until the lease ends; behind it nothing is left."""
        if not settings.INFERENCE_STREAM:
            yield
            return
        followed = Following(job_id, growing, ends_at)
        with self._some:
            self._followed.append(followed)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="scribe", daemon=True)
                self._thread.start()
            self._some.notify()
        try:
            yield
        finally:
            with self._some:
                self._followed.remove(followed)
                # Watched, the first of it may be on its way at this moment.
                if followed.told or followed.is_watched:
                    self._ended.append(job_id)

    def _run(self) -> None:
        while True:
            with self._some:
                self._some.wait_for(lambda: self._followed or self._ended)
                due = [followed for followed in self._followed if followed.is_due()]
                ended, self._ended = self._ended, []
            pause_s = EVERY_S
            try:
                if due or ended:
                    self._tell(due, ended)
                    self._say("")
            except redis.RedisError as error:
                self._say(type(error).__name__)
                pause_s = PAUSE_S
            time.sleep(pause_s)

    def _tell(self, due: list[Following], ended: list[UUID]) -> None:
        sizes = [followed.growing.size for followed in due]
        with hints.broker().pipeline(transaction=False) as commands:
            for job_id in ended:
                commands.delete(hints.text_key(job_id))
            for followed in due:
                if followed.is_watched:
                    left_s = max(1, math.floor(followed.ends_at - time.monotonic()))
                    key = hints.text_key(followed.job_id)
                    commands.set(key, followed.growing.shown.encode(), ex=left_s)
            for followed in due:
                commands.publish(hints.channel(followed.job_id), hints.GREW)
            answers = commands.execute()
        heard_by = answers[len(answers) - len(due) :]
        for followed, size, heard in zip(due, sizes, heard_by, strict=True):
            if followed.is_watched:
                followed.told = size
            followed.is_watched = bool(heard)

    def _say(self, problem: str) -> None:
        if bool(problem) is not self._is_away:
            self._is_away = bool(problem)
            if problem:
                logger.warning("the broker takes no growing texts (%s)", problem)


_scribe = Scribe()
following = _scribe.following
