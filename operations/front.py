"""What an operator asks first: what waits, what runs, what fails, and who is there to work.

Each part is bounded in rows and in time, and one that cannot answer leaves the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import redis
from django.db import DatabaseError
from django.utils import timezone

from budgets import days
from budgets.rows import statements_within
from operations import hour
from operations.charts import columns
from reports import census, dispatch
from telemetry import relay

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import AnonymousUser, User

Figure = TypeVar("Figure")
LIMIT_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """What the broker knows of those who work; `seen_at` is kept for a minute."""

    seen_at: datetime | None
    slots: int
    calls: int


def figures(user: User | AnonymousUser) -> dict[str, Any]:
    """Everything that the front page shows this operator; what is None could not be read."""
    shows_jobs = user.has_perm("reports.view_reportjob")
    shows_budgets = user.has_perm("budgets.view_inferencebudget")
    found: dict[str, Any] = {"shows_jobs": shows_jobs, "shows_budgets": shows_budgets}
    if shows_jobs or shows_budgets:
        found |= {"read_at": timezone.now()}
    if shows_jobs:
        active, ended = _in_time(census.take), _in_time(hour.read)
        found |= {
            "census": active,
            "oldest_s": int(active.oldest_queued_s) if active else 0,
            "hour": ended,
            "drawing": columns(ended.chart()) if ended else None,
            "workers": _workers(),
        }
    if shows_budgets:
        found |= {"today": _in_time(days.of_all)}
    return found


def _in_time(read: Callable[[], Figure]) -> Figure | None:
    """What a read finds. None: the database took too long, or broke it off."""
    try:
        with statements_within(LIMIT_MS):
            return read()
    except DatabaseError:
        return None


def _workers() -> Workers | None:
    try:
        seen = relay.broker().get(dispatch.SEEN_KEY)
        workers = [process for process in relay.processes() if process.get("role") == "worker"]
    except redis.RedisError:
        return None
    return Workers(
        seen_at=datetime.fromtimestamp(int(seen), UTC) if seen else None,
        slots=sum(int(worker.get("worker_slots", 0)) for worker in workers),
        calls=sum(int(worker.get("calls_in_flight", 0)) for worker in workers),
    )
