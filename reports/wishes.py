"""What a POST may ask for beside its prompt: labels of its own, and how long it is worth a wait."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.conf import settings

from reports.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from reports.conversation import Conversation
    from reports.models import ReportJob

MOST_PAIRS = 16
LONGEST_NAME = 64
LONGEST_VALUE = 512
UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
# RFC 3339, or its date alone. A plus sign that nobody encoded for a query arrives as a blank.
INSTANT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:[Zz]|([-+ ])(\d\d:\d\d)))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What one job was asked for beside its prompt; None: nothing."""

    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_in_s: int | None = None
    again_of: UUID | None = None
    conversation: Conversation | None = field(default=None, repr=False)

    @classmethod
    def again(cls, job: ReportJob) -> Wishes:
        """The same as of a job before, with a link to it."""
        limit_s = None
        if job.expires_at is not None:
            limit_s = max(1, round((job.expires_at - job.created_at).total_seconds()))
        return cls(
            metadata=job.metadata,
            expires_in_s=limit_s,
            again_of=job.pk,
            conversation=job.conversation,
        )


NO_WISHES = Wishes()


def longest_wait_s() -> int:
    """The largest `expires_in_s`: nothing waits longer than QUEUE_TTL_S anyway."""
    return int(settings.QUEUE_TTL_S)


def wishes_in(body: Mapping[str, object]) -> Wishes:
    """The wishes in a POST's JSON. Raises InvalidRequest."""
    return Wishes(
        metadata=validate_metadata(body.get("metadata")),
        expires_in_s=validate_expires_in_s(body.get("expires_in_s")),
    )


def validate_metadata(value: object) -> dict[str, str]:
    """The pairs exactly as they were sent; null stands for none. Raises InvalidRequest."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidRequest(metadata="The metadata must be an object of names and texts.")
    if len(value) > MOST_PAIRS:
        raise InvalidRequest(metadata=f"There are {len(value)} pairs; {MOST_PAIRS} is the limit.")
    for name, text in value.items():
        if not 1 <= len(name) <= LONGEST_NAME:
            raise InvalidRequest(metadata=f"A name has 1 to {LONGEST_NAME} characters.")
        if not isinstance(text, str):
            raise InvalidRequest(metadata="Each value must be a string.")
        if len(text) > LONGEST_VALUE:
            raise InvalidRequest(
                metadata=f"A value has {len(text)} characters; {LONGEST_VALUE} is the limit."
            )
        if UNSTORABLE.search(name + text):
            raise InvalidRequest(
                metadata="The metadata hold a NUL or half of a surrogate pair, which no text can."
            )
    return value


def validate_expires_in_s(value: object) -> int | None:
    """Seconds that a job may wait for a worker; None: as long as any. Raises InvalidRequest."""
    if value is None:
        return None
    # JSON knows one kind of number: 60.0 is 60 there.
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_within = 1 <= value <= longest_wait_s()
        if is_within and value == int(value):
            return int(value)
    raise InvalidRequest(
        expires_in_s=f"It must be a whole number of seconds from 1 to {longest_wait_s()}."
    )


def validate_instant(value: str, *, name: str) -> datetime:
    """An instant of RFC 3339, or a date's first. Raises InvalidRequest under `name`."""
    found = INSTANT.fullmatch(value)
    if found is not None:
        day, clock, sign, offset = found.groups()
        zone = f"{'+' if sign == ' ' else sign}{offset}" if sign else "+00:00"
        try:
            return datetime.fromisoformat(f"{day}T{clock or '00:00:00'}{zone}").astimezone(UTC)
        except (ValueError, OverflowError):
            pass  # such as 30 February
    raise InvalidRequest(
        **{name: "Write an instant as 2026-11-30T08:00:00Z, or a date as 2026-11-30."}
    )
