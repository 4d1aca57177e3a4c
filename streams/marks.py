"""How far a client has come in the events of a job: what stands in `id` and `Last-Event-ID`.

A mark is the state that was seen, and behind it how much of the growing text: resuming needs
nothing else, so that no event is kept anywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reports.models import ReportJob

MARK = re.compile(r"([0-9]{1,17}-(?:queued|running|succeeded|failed))(?:-([0-9]{1,9}))?")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Mark:
    """The state that was seen ("": none), and how many characters of the text after it."""

    state: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.state}-{self.offset}" if self.offset else self.state


def read(last_event_id: str | None) -> Mark:
    """The mark that a client sends back; what is none of ours is the mark of who saw nothing."""
    found = MARK.fullmatch(last_event_id or "")
    return Mark(found[1], int(found[2] or 0)) if found else Mark()


def state_of(job: ReportJob) -> str:
    """A word for the state of a row, another after each transition."""
    return state(job.updated_at, job.status)


def state(updated_at: datetime, status: str) -> str:
    """The same from its two columns."""
    return f"{(updated_at - EPOCH) // MICROSECOND}-{status}"


def since(state: str) -> int:
    """Since when it is so, to compare; -1 for no state."""
    return int(state.partition("-")[0] or -1)
