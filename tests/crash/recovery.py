"""What the living do after a crash, and whether it was enough."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import redis
from django.conf import settings
from django.db.models.functions import Now

from budgets.models import InferenceBudget
from reports import invariants, messages, sweep, tasks
from reports.errors import ErrorCode
from reports.models import TERMINAL, ReportJob
from tests.crash import telling
from webhooks.models import WebhookDelivery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.scenarios import Scenario
    from tests.support.clients import Api

# The only columns of a terminal row that may still change, and only when its texts are erased.
ERASABLE = frozenset(
    (
        *("prompt", "prompt_digest", "result_text", "error_detail", "metadata"),
        *("erased_at", "updated_at"),
    )
)


def recover(scenario: Scenario, api: Api) -> dict[str, Any]:
    """Let clients, workers and the sweep carry on.

    Returns what is wrong, what was to be called, and whether and as what a webhook was told.

    A message may be delivered twice at any time, so what a dead worker held comes back at once,
    and every job's comes once more in the end.
    """
    watchers = telling.Watchers.of_now()
    is_told = WebhookDelivery.objects.ended().exists()
    problems = [f"at once: {fault}" for fault in invariants.check()]
    terminal = _terminal_rows()
    if scenario.by_client:
        scenario.act(api)
    waiting = set(ReportJob.objects.claimable().values_list("pk", flat=True))
    _deliver([pk for pk in ReportJob.objects.values_list("pk", flat=True) if pk not in waiting])
    _deliver(_messages())
    for _ in range(2):
        _let_time_pass()
        sweep.sweep()
        _deliver(_messages())
    left = ReportJob.objects.exclude(status__in=TERMINAL)
    problems += [f"not terminal after two sweeps: {job}" for job in left]
    _deliver(list(ReportJob.objects.values_list("pk", flat=True)))
    problems += _problems(scenario, terminal, waiting)
    problems += watchers.come_back(api)
    if scenario.receiver:
        problems += telling.tell_the_rest()
    return {
        "problems": problems,
        "called": [str(pk) for pk in waiting],
        "is_told": is_told,
        "messages": [delivery.webhook_id for delivery in WebhookDelivery.objects.all()],
    }


def _deliver(job_ids: list[UUID]) -> None:
    for job_id in job_ids:
        tasks.run(str(job_id))


def _messages() -> list[UUID]:
    """Take every job id that the broker holds, from where Celery's worker would take it."""
    found = []
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        while (message := broker.rpop(messages.JOBS_QUEUE)) is not None:
            envelope = json.loads(message)
            assert envelope["headers"]["task"] == messages.RUN_TASK
            (job_id,), options, _ = json.loads(base64.b64decode(envelope["body"]))
            assert options == {}
            found.append(UUID(job_id))
    return found


def _let_time_pass() -> None:
    ReportJob.objects.running().update(lease_expires_at=Now() - timedelta(seconds=1))
    ReportJob.objects.queued().update(publish_again_at=Now())
    ReportJob.objects.filter(try_after__isnull=False).update(try_after=Now())


def _terminal_rows() -> dict[UUID, dict[str, Any]]:
    rows = ReportJob.objects.terminal().values()
    return {row["id"]: {n: v for n, v in row.items() if n not in ERASABLE} for row in rows}


def _problems(
    scenario: Scenario, terminal: dict[UUID, dict[str, Any]], waiting: set[UUID]
) -> Iterator[str]:
    yield from (str(fault) for fault in invariants.check())
    jobs = list(ReportJob.objects.all())
    if len(jobs) != 1:
        yield f"{len(jobs)} rows where one request was made"
    for job in jobs:
        if job.attempts > scenario.most_calls:
            yield f"claimed {job.attempts} times: {job}"
        if job.pk in waiting and job.error_code in (ErrorCode.WORKER_LOST, ErrorCode.QUEUE_EXPIRED):
            yield f"waited when the process died, and was never called: {job.error_code}"
    after = _terminal_rows()
    yield from (f"a terminal row changed: {pk}" for pk in terminal if after.get(pk) != terminal[pk])
    for budget in InferenceBudget.objects.all():
        if budget.spent_tokens > budget.daily_tokens:
            yield f"over the allowance: {budget}"
