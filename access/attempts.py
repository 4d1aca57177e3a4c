"""Bad tokens, counted by address in the memory of each process: bounded, and without a write."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict

LIMIT = 300
WINDOW_S = 60.0
# An attacker with more addresses pushes out the oldest counts, and no memory is lost.
ADDRESSES = 10_000

_lock = threading.Lock()
# By address: how many in this window, and when it ends.
_counts: OrderedDict[str, tuple[int, float]] = OrderedDict()


def note(address: str | None) -> int | None:
    """Count a bad token; the seconds to stay away when there were too many, else None."""
    key = address or ""
    now = time.monotonic()
    with _lock:
        count, ends_at = _counts.get(key, (0, 0.0))
        if ends_at <= now:
            _counts.pop(key, None)
            count, ends_at = 0, now + WINDOW_S
        _counts[key] = count + 1, ends_at
        while len(_counts) > ADDRESSES:
            _counts.popitem(last=False)
    return max(1, round(ends_at - now)) if count >= LIMIT else None


def forget(address: str | None) -> None:
    """Begin again at an address with a good token: behind one address there may be many people."""
    with _lock:
        _counts.pop(address or "", None)


def forget_all() -> None:
    """Begin again everywhere."""
    with _lock:
        _counts.clear()


def how_many() -> int:
    """How many addresses are counted."""
    return len(_counts)
