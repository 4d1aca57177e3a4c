"""How many jobs wait and run, and since when: bounded reads for whoever watches the product.

Each looks at the few rows of a partial index, however many have ended, and never counts further
than `COUNTED`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from budgets.rows import Now, statements_within
from reports.models import ReportJob

if TYPE_CHECKING:
    from reports.models import JobQuerySet

COUNTED = 100_000
LIMIT_MS = 1000


@dataclass(frozen=True, slots=True)
class Census:
    """The active jobs of one instant; ages in seconds, 0 where there is nothing of that kind."""

    queued: int
    running: int
    overdue: int  # running past their lease: the sweep should have failed them
    oldest_queued_s: float
    oldest_text_s: float  # since the end of the oldest job whose texts are still there


def take() -> Census:
    """Ask the database, a second at most. Raises what it raises."""
    jobs = ReportJob.objects
    with_texts = jobs.filter(erased_at=None, finished_at__isnull=False)
    with statements_within(LIMIT_MS):
        return Census(
            queued=_count(jobs.queued(), "created_at"),
            running=_count(jobs.running(), "lease_expires_at"),
            overdue=_count(jobs.lease_expired(), "lease_expires_at"),
            oldest_queued_s=_age_s(jobs.queued(), "created_at"),
            oldest_text_s=_age_s(with_texts, "finished_at"),
        )


def _count(rows: JobQuerySet, column: str) -> int:
    return int(rows.order_by().values(column)[:COUNTED].count())


def _age_s(rows: JobQuerySet, column: str) -> float:
    oldest = rows.annotate(now=Now()).order_by(column).values_list(column, "now").first()
    return 0.0 if oldest is None else max(0.0, (oldest[1] - oldest[0]).total_seconds())
