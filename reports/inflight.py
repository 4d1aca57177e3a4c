"""The provider calls that this process has in flight, for its other threads to end."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reports.models import ReportJob

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from reports.provider import Call
    from reports.transitions import Claim

_lock = threading.Lock()
_calls: dict[UUID, tuple[UUID, Call]] = {}  # claim id -> job id, call
_is_closed = threading.Event()


@contextmanager
def carrying(held: Claim, call: Call) -> Iterator[None]:
    """Keep a call reachable for the other threads inside the block."""
    with _lock:
        _calls[held.claim_id] = held.job_id, call
    try:
        yield
    finally:
        with _lock:
            del _calls[held.claim_id]


def count() -> int:
    """How many calls this process has in flight."""
    return len(_calls)


def close() -> None:
    """Take no new job from now on: this process is about to end."""
    _is_closed.set()


def is_closed() -> bool:
    """Whether this process takes no new job any more."""
    return _is_closed.is_set()


def abort_lost() -> int:
    """End the calls whose job was cancelled or taken away meanwhile; return how many.

    One statement, and none when nothing is in flight. Raises what the database raises.
    """
    with _lock:
        calls = dict(_calls)
    if not calls:
        return 0
    job_ids = [job_id for job_id, _ in calls.values()]
    running = ReportJob.objects.running().filter(pk__in=job_ids)
    lost = calls.keys() - set(running.values_list("claim_id", flat=True))
    for claim_id in lost:
        calls[claim_id][1].abort()
    return len(lost)


def abort_all() -> int:
    """End every call; each job then fails as worker_lost. Return how many there were."""
    with _lock:
        calls = [call for _, call in _calls.values()]
    for call in calls:
        call.abort()
    return len(calls)
