"""Retry-After (RFC 9110 section 10.2.3) as whole seconds, whatever a server writes there."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_S = 86400
DIGITS = 10


def seconds(value: str | None) -> int | None:
    """The wait that a header asks for, 0 to a day; None: there is no such header.

    What cannot be read, and what lies in the past, is 0: the server did ask to come back.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:DIGITS]), LONGEST_S)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(min(max((moment - datetime.now(UTC)).total_seconds(), 0), LONGEST_S))
