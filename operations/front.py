"""What an operator asks first: what waits, what runs, what fails, and who is there to work.

Each part is bounded in rows and in time, and one that cannot answer leaves the others alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import redis
from django.db import DatabaseError
from django.utils import timezone

from budgets import days
from operations import bounded, hour
from operations.charts import columns
from reports import census, dispatch
from telemetry import relay

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

    from budgets.days import DayOfAll
    from operations.hour import Hour
    from reports.census import Census

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
        active, ended = _active(), _ended()
        found |= {
            "census": active,
            "oldest_s": int(active.oldest_queued_s) if active else 0,
            "hour": ended,
            "drawing": columns(ended.chart()) if ended else None,
            "workers": _workers(),
        }
    if shows_budgets:
        found |= {"today": _today()}
    return found


def _active() -> Census | None:
    try:
        return census.take()
    except DatabaseError:
        return None


def _ended() -> Hour | None:
    try:
        with bounded.statements(limit_ms=LIMIT_MS):
            return hour.read()
    except DatabaseError:
        return None


def _today() -> DayOfAll | None:
    try:
        with bounded.statements(limit_ms=LIMIT_MS):
            return days.of_all()
    except DatabaseError:
        return None


def _workers() -> Workers | None:
    try:
        seen = relay.broker().get(dispatch.SEEN_KEY)
        workers = [process for process in relay.processes() if process["role"] == "worker"]
    except redis.RedisError:
        return None
    return Workers(
        seen_at=datetime.fromtimestamp(int(seen), UTC) if seen else None,
        slots=sum(int(worker["worker_slots"]) for worker in workers),
        calls=sum(int(worker["calls_in_flight"]) for worker in workers),
    )
