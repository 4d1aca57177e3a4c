"""A user's day of tokens as a value: what is left, when it resets, and the headers for both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

POLICY = "daily-tokens"
DAY_S = 86400


def estimate_tokens(text: str) -> int:
    """A quarter of the characters, at least one: a text's cost before anybody counts."""
    return max(1, len(text) // 4)


def rfc3339(moment: datetime) -> str:
    """A UTC instant as the API writes it (RFC 3339)."""
    return moment.isoformat().replace("+00:00", "Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One UTC day of one user."""

    daily_tokens: int
    spent_tokens: int
    day_utc: date

    @property
    def remaining_tokens(self) -> int:
        """Never negative, also where a cap was lowered below what is spent."""
        return max(0, self.daily_tokens - self.spent_tokens)

    @property
    def resets_at(self) -> datetime:
        """The UTC midnight that ends this day."""
        return datetime.combine(self.day_utc + timedelta(days=1), time.min, tzinfo=UTC)

    def seconds_left(self) -> int:
        """Whole seconds to the reset, at least one, so that nobody is told to come back at once."""
        return max(1, -int((datetime.now(UTC) - self.resets_at).total_seconds() // 1))

    def headers(self) -> dict[str, str]:
        """`RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers."""
        return {
            "RateLimit-Policy": f'"{POLICY}";q={self.daily_tokens};w={DAY_S}',
            "RateLimit": f'"{POLICY}";r={self.remaining_tokens};t={self.seconds_left()}',
        }
