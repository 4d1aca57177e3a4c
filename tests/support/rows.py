"""Rows in any state and of any age: the row's times are moved, for the database's clock decides."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING
from uuid import uuid4

from django.db.models import F
from django.db.models.functions import Now

from budgets.models import InferenceBudget
from budgets.rows import UtcToday
from reports.errors import ErrorCode
from reports.models import TERMINAL, ReportJob, Status

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ESTIMATE = 10
_keys = count(1)


def job_in(status: str, *, user: User, age_s: float = 0, **columns: object) -> ReportJob:
    """A job in this state, whose every time lies `age_s` back; columns overrule.

    The user's budget row carries it, as after the transitions that lead there.
    """
    then = Now() - timedelta(seconds=age_s)
    values: dict[str, object] = {
        "user": user,
        "idempotency_key": f"row-{next(_keys)}",
        "prompt": "a prompt of the builder",
        "status": status,
        "token_estimate": ESTIMATE,
        "created_at": then,
        "updated_at": then,
        "publish_again_at": then + timedelta(seconds=30),
        **_of_status(status, age_s),
        **columns,
    }
    job = ReportJob.objects.create(**values)
    job.refresh_from_db()
    _book(job)
    return job


def row(job: ReportJob) -> dict[str, object]:
    """Every column of a job as the database has it."""
    return {**ReportJob.objects.filter(pk=job.pk).values().get()}


def budget(user: User) -> dict[str, object]:
    """Every column of a user's budget."""
    return {**InferenceBudget.objects.filter(user=user).values().get()}


def give_budget(user: User, **columns: object) -> None:
    """Set columns of a user's budget row, which is made if it is not there; a day is today."""
    defaults: dict[str, object] = {"day_utc": UtcToday(), **columns}
    InferenceBudget.objects.update_or_create(
        user=user, defaults=defaults, create_defaults={"daily_tokens": 100_000, **defaults}
    )


def today() -> date:
    """The UTC date."""
    return datetime.now(UTC).date()


def _of_status(status: str, age_s: float) -> dict[str, object]:
    then = Now() - timedelta(seconds=age_s)
    claimed = {
        "claim_id": uuid4(),
        "started_at": then,
        "lease_expires_at": then + timedelta(seconds=60),
    }
    match Status(status):
        case Status.QUEUED:
            return {}
        case Status.RUNNING:
            return claimed
        case Status.SUCCEEDED:
            usage = {"prompt_tokens": 3, "completion_tokens": 4, "settled_tokens": 7}
            texts = {"result_text": "a text", "finish_reason": "stop"}
            return {**claimed, **usage, **texts, "http_status": 200, "finished_at": then}
        case Status.FAILED:
            failure = {"error_code": ErrorCode.PROVIDER_5XX, "error_detail": "It answered 503."}
            ending = {"http_status": 503, "settled_tokens": 0, "finished_at": then}
            return {**claimed, **failure, **ending}


def _book(job: ReportJob) -> None:
    """What the job costs its user's day: its reservation, or what it was settled at."""
    is_active = job.status not in TERMINAL
    tokens = job.token_estimate if is_active else (job.settled_tokens or 0)
    InferenceBudget.objects.get_or_create(
        user_id=job.user_id, defaults={"daily_tokens": 100_000, "day_utc": job.day_utc}
    )
    rows = InferenceBudget.objects.filter(user_id=job.user_id)
    rows.update(active_jobs=F("active_jobs") + int(is_active))
    rows.filter(day_utc=job.day_utc).update(
        spent_tokens=F("spent_tokens") + tokens,
        reserved_tokens=F("reserved_tokens") + tokens * is_active,
    )
