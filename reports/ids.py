"""Job ids: UUIDv7 (RFC 9562 section 5.7), so that new rows land at the end of their index."""

from __future__ import annotations

import os
import time
from uuid import UUID


def uuid7() -> UUID:
    """A new id: 48 bits of Unix milliseconds, then 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds << 80) | int.from_bytes(os.urandom(10), "big")
    value &= ~(0xF << 76) & ~(0b11 << 62)
    return UUID(int=value | (0x7 << 76) | (0b10 << 62))
