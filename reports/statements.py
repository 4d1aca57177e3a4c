"""The SQL of the transitions that every job makes, written once in a process.

`transitions` sends it. On PostgreSQL an ending is one statement with what it does to the budget;
SQLite cannot write two tables with one, so there both are in a transaction.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection, models
from django.db.models import Case, F, Value, When

from budgets.compiled import Given, Reading, Statement, Text, given, returning, update
from budgets.reserving import settling
from budgets.rows import Noted, Now
from reports.models import ReportJob, Status
from reports.timeline import What

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.models import JobQuerySet

# What is left of a request in messages: that it was one.
NOTHING_OF_IT = Case(
    When(openai_request__isnull=False, then=Value({}, models.JSONField())), default=None
)
JOB_ID = Given("job_id", models.UUIDField())
CLAIM_ID = Given("claim_id", models.UUIDField())
TOLD = Given("told", models.TextField())  # the detail of a line in the timeline
# What a worker needs of a row, and what is told of its claim; in the order of the model's fields.
CLAIMED = [
    *("id", "user_id", "prompt", "token_estimate", "day_utc"),
    *("attempts", "claim_id", "created_at", "started_at", "openai_request"),
]


def ending(rows: JobQuerySet, what: What, **values: object) -> Text:
    """The UPDATE that ends a job; on PostgreSQL one statement with what it does to the budget."""
    moving = update(
        rows,
        **values,
        settled_tokens=Given("settled_tokens", models.BigIntegerField()),
        finished_at=Now(),
        updated_at=Now(),
        timeline=Noted("timeline", what, TOLD),
    )
    if connection.vendor != "postgresql":
        return moving
    return (
        Text("WITH ended AS (", ())  # noqa: S608  # text of ours
        + moving
        + " RETURNING id), settled AS ("
        + settling()
        + " AND EXISTS (SELECT 1 FROM ended)) SELECT COUNT(*) FROM ended"
    )


def _claiming() -> tuple[Text, Sequence[Any]]:
    lease = timedelta(seconds=settings.INFERENCE_TIMEOUT_S + settings.LEASE_GRACE_S)
    claiming = update(
        ReportJob.objects.claimable().filter(pk=JOB_ID),
        status=Status.RUNNING,
        claim_id=CLAIM_ID,
        attempts=F("attempts") + 1,
        started_at=Now(),
        updated_at=Now(),
        lease_expires_at=Now() + lease,
        timeline=Noted("timeline", What.CLAIMED, TOLD),
    )
    return returning(claiming, ReportJob, CLAIMED)


CLAIM = Reading(_claiming, of=("QUEUE_TTL_S", "INFERENCE_TIMEOUT_S", "LEASE_GRACE_S"))


def _succeeding() -> Text:
    answer = ("result_text", "finish_reason", "prompt_tokens", "completion_tokens", "is_prompt_cut")
    return ending(
        ReportJob.objects.running().filter(pk=JOB_ID, claim_id=CLAIM_ID),
        What.SUCCEEDED,
        status=Status.SUCCEEDED,
        http_status=200,
        **{name: given(ReportJob, name) for name in answer},
    )


SUCCEED = Statement(_succeeding)
