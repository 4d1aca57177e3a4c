"""How many streams this process holds open, in all and for each user, and when it is enough."""

from __future__ import annotations

import threading
from collections import Counter

from django.conf import settings

from reports.errors import TooManyStreams, Unavailable

RETRY_S = 5

_lock = threading.Lock()
_by_user: Counter[int] = Counter()


def enter(user_id: int) -> None:
    """Take a place. Raises TooManyStreams, or Unavailable when this process is full."""
    with _lock:
        if _by_user[user_id] >= settings.EVENTS_PER_USER:
            raise TooManyStreams(
                members={"max_streams": settings.EVENTS_PER_USER},
                headers={"Retry-After": str(RETRY_S)},
            )
        if _by_user.total() >= settings.EVENTS_MAX:
            raise Unavailable("There are as many streams as this service holds. Poll the job.")
        _by_user[user_id] += 1


def leave(user_id: int) -> None:
    """Give a place back."""
    with _lock:
        _by_user[user_id] -= 1
        if not _by_user[user_id]:
            del _by_user[user_id]


def count() -> int:
    """How many places are taken."""
    return _by_user.total()
