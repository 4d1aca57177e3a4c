"""Job ids: UUIDv7 (RFC 9562 section 5.7), so that new rows land at the end of their index."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

RESPONSE = re.compile(r"resp_([0-9a-f]{32})")
ONE_DAY = timedelta(days=1)
# Ids carry the clock of the host that made them, days the database's.
CLOCKS_APART = timedelta(hours=1)


def uuid7() -> UUID:
    """A new id: 48 bits of Unix milliseconds, then 74 random bits."""
    return _at(time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10), "big"))


def lowest_at(moment: datetime) -> UUID:
    """The lowest id that can be made at a moment: those made before it are lower."""
    return _at(int(moment.timestamp() * 1000), 0)


def of_day(day: date) -> tuple[UUID, UUID]:
    """The lowest id that a job of a UTC day can have, and the first that none can have any more."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return lowest_at(midnight - CLOCKS_APART), lowest_at(midnight + ONE_DAY + CLOCKS_APART)


def made_at(some_id: str) -> datetime | None:
    """When an id was made. None: it is none of ours."""
    try:
        parsed = UUID(some_id)
    except ValueError:
        return None
    if parsed.version != 7:
        return None
    return datetime.fromtimestamp((parsed.int >> 80) / 1000, UTC)


def response_id(job_id: UUID) -> str:
    """What OpenAI's clients know a job by."""
    return f"resp_{job_id.hex}"


def job_of_response(some_id: str) -> UUID | None:
    """The job of such an id. None: it is none of ours."""
    found = RESPONSE.fullmatch(some_id)
    return UUID(found[1]) if found else None


def _at(milliseconds: int, rest: int) -> UUID:
    value = (milliseconds << 80) | rest
    value &= ~(0xF << 76) & ~(0b11 << 62)
    return UUID(int=value | (0x7 << 76) | (0b10 << 62))
