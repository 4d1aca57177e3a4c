"""What became of one job and when, as its row tells it: each change writes its line as it moves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.models import ReportJob


class What(StrEnum):
    """The words of a timeline."""

    ACCEPTED = "accepted"
    PUBLISHED = "published"  # the message that led to the claim
    CLAIMED = "claimed"
    PUT_OFF = "put_off"
    REPUBLISHED = "republished"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ERASED = "erased"


@dataclass(frozen=True, slots=True)
class Step:
    """One line: an instant, a word of What, and what else is known, such as tokens charged."""

    at: datetime
    what: str
    detail: str = ""


def steps(job: ReportJob) -> list[Step]:
    """Everything that is known of a job's life, the oldest first."""
    accepted = Step(job.created_at, What.ACCEPTED, f"{job.token_estimate} tokens reserved")
    # A terminal row is never written again but to erase its texts, so that line is not in the list.
    erased = [] if job.erased_at is None else [Step(job.erased_at, What.ERASED)]
    return [accepted, *_written(job), *erased]


def _written(job: ReportJob) -> Iterator[Step]:
    for at, what, detail in job.timeline:
        if what != What.CLAIMED:
            yield Step(datetime.fromisoformat(at), what, detail)
            continue
        # A claim writes down when its message was published: only the message itself knew.
        if detail:
            yield Step(datetime.fromisoformat(detail), What.PUBLISHED)
        yield Step(datetime.fromisoformat(at), what)
