"""Tells whoever watches a job that it has changed: a hint, on a channel of the job's own.

The row is the truth. So a hint leaves off the caller's thread, waits for nothing, and is dropped
while the broker is away: who missed it reads the row a moment later.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    from uuid import UUID

CHANNEL = "reports.job."
CHANGED = "changed"  # its row did
GREW = "grew"  # what there is of its text did
TEXT = "reports.text."
WAITING = 10_000
AT_ONCE = 200
LIMIT_S = 0.4
PAUSE_S = 1.0

logger = logging.getLogger(__name__)


def channel(job_id: UUID) -> str:
    """Where hints about a job are told."""
    return f"{CHANNEL}{job_id}"


def text_key(job_id: UUID) -> str:
    """Where the text so far of a running job lies, never longer than its lease lasts."""
    return f"{TEXT}{job_id}"


class Teller:
    """One process's way to tell: a bounded line and the thread that empties it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: queue.Queue[tuple[UUID, bool]] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._is_away = False

    def changed(self, job_id: UUID, *, is_over: bool = False) -> None:
        """The job's row changed, and this is committed. Costs the caller microseconds."""
        with suppress(queue.Full):  # whoever watches looks at the row
            self._waiting.put_nowait((job_id, is_over))
        if self._thread is None:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            changes = [self._waiting.get()]
            while len(changes) < AT_ONCE and not self._waiting.empty():
                changes.append(self._waiting.get())
            try:
                self._tell(changes)
            except redis.RedisError as error:
                self._say(type(error).__name__)
                time.sleep(PAUSE_S)
            else:
                self._say("")
            for _ in changes:
                self._waiting.task_done()

    def _tell(self, changes: list[tuple[UUID, bool]]) -> None:
        with broker().pipeline(transaction=False) as commands:
            for job_id, is_over in changes:
                if is_over:  # also of a worker that died, or that does not know of its end yet
                    commands.delete(text_key(job_id))
                commands.publish(channel(job_id), CHANGED)
            commands.execute()

    def _say(self, problem: str) -> None:
        if bool(problem) is not self._is_away:
            self._is_away = bool(problem)
            if problem:
                logger.warning("the broker takes no hints (%s); watchers look at the rows", problem)


@cache
def broker() -> redis.Redis:
    """Connections of their own, so that no message waits for a hint."""
    return redis.Redis.from_url(
        settings.CELERY_BROKER_URL,
        socket_connect_timeout=LIMIT_S,
        socket_timeout=LIMIT_S,
        retry=Retry(NoBackoff(), 0),
    )


_teller = Teller()
changed = _teller.changed
