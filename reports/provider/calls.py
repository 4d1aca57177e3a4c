"""One running call: its deadline, how far it came, and how another thread ends it."""

from __future__ import annotations

import math
import threading
import time
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from reports.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Stopped(OSError):
    """The call was ended from our side; `Call.stopped_by` says why."""


class Phase(StrEnum):
    """How far a call came, worded to follow "while"."""

    RESOLVING = "looking up its host name"
    CONNECTING = "connecting to it"
    SECURING = "agreeing on TLS with it"
    WAITING = "waiting for its answer"
    READING = "reading its answer"


class Call:
    """A handle on one running call, good for exactly one `complete`."""

    def __init__(self, job_id: str, deadline_monotonic: float) -> None:
        self.job_id = job_id
        self.deadline_monotonic = deadline_monotonic
        self.phase = Phase.RESOLVING
        self.status: int | None = None  # of the last status line read; 0 = a line that was none
        self.stopped_by: ErrorCode | None = None
        self._lock = threading.Lock()
        self._is_finished = False
        self._stop: Callable[[], object] | None = None

    @property
    def seconds_left(self) -> float:
        """Wall clock until the deadline, never negative."""
        return max(0.0, self.deadline_monotonic - time.monotonic())

    def abort(self) -> None:
        """End the call from any thread, at once; without effect on one that is over."""
        self._end(ErrorCode.WORKER_LOST)

    def expire(self) -> None:
        """End the call because its time is up."""
        self._end(ErrorCode.PROVIDER_TIMEOUT)

    def hold(self, stop: Callable[[], object]) -> None:
        """Name what wakes the calling thread from the wait that it is about to begin.

        Raises Stopped if the call was ended before.
        """
        with self._lock:
            if self.stopped_by is not None:
                raise Stopped
            self._stop = stop

    def let_go(self) -> None:
        """Forget what `hold` named; once this returns, ending the call touches it no more."""
        with self._lock:
            self._stop = None

    def finish(self) -> None:
        """Declare the answer complete; raises Stopped if the call was ended before."""
        with self._lock:
            if self.stopped_by is not None:
                raise Stopped
            self._is_finished = True

    def _end(self, code: ErrorCode) -> None:
        with self._lock:
            if self._is_finished:
                return
            if self.stopped_by is None:
                self.stopped_by = code
            stop, self._stop = self._stop, None
            if stop is not None:
                # Under the lock, so that the socket cannot be another call's by now; and a
                # connection that the other side has ended just before is ended all the same.
                with suppress(OSError):
                    stop()


class Watchdog:
    """One thread that ends each call at its deadline, whatever the call is waiting for.

    Timeouts of sockets start again with every byte, so a server that drips would never meet one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._calls: set[Call] = set()
        self._wakes_at = math.inf
        threading.Thread(target=self._run, name="provider-deadlines", daemon=True).start()

    @contextmanager
    def watching(self, call: Call) -> Iterator[None]:
        """Keep the call to its deadline inside the block."""
        with self._changed:
            self._calls.add(call)
            if call.deadline_monotonic < self._wakes_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._calls.discard(call)

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for call in [c for c in self._calls if c.deadline_monotonic <= now]:
                    self._calls.discard(call)
                    call.expire()
                self._wakes_at = min((c.deadline_monotonic for c in self._calls), default=math.inf)
                self._changed.wait(None if self._wakes_at == math.inf else self._wakes_at - now)
