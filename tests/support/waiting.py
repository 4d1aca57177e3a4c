"""Waiting for something to become so: a condition and a limit, never a bare pause."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Seen = TypeVar("Seen")
LOOK_EVERY_S = 0.02


def until(
    look: Callable[[], Seen], is_enough: Callable[[Seen], object] = bool, *, within_s: float = 10
) -> Seen:
    """Look until it is enough and return what was seen; says what was seen last when time is up."""
    deadline = time.monotonic() + within_s
    while not is_enough(seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s:g} seconds; last seen: {seen!r}")
        time.sleep(LOOK_EVERY_S)
    return seen
