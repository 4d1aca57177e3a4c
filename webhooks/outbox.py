"""From endings to messages: looks through the jobs that ended, and makes a delivery of each.

Jobs know nothing of webhooks, so a run costs no statement more. The row of a job is what is read,
so that no crash loses a message; the unique constraint lets any number of workers look at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models import Exists, F, Min, OuterRef, Q

from budgets.rows import Now, database_now
from reports.models import ReportJob, Status
from responses import objects
from webhooks import payloads
from webhooks.models import Event, Off, WebhookDelivery, WebhookEndpoint, WebhookWatermark

if TYPE_CHECKING:
    from datetime import datetime

    from reports.models import JobQuerySet

MOST_ROWS = 500
# An ending carries the instant of its statement and is seen once its transaction is through. What
# took longer than the first is found by the second, which is looked through now and then.
BACK = timedelta(minutes=2)
FAR_BACK = timedelta(days=1)
NOTED_EVERY = timedelta(seconds=10)
BY_STATUS = {Status.SUCCEEDED: Event.SUCCEEDED, Status.FAILED: Event.FAILED}
TOLD = (
    *("id", "user_id", "status", "http_status", "error_code"),
    *("finish_reason", "finished_at"),
)


def note(*, back: timedelta = BACK) -> int:
    """Make the deliveries that are missing; how many. Most of the time one statement finds none."""
    listening = WebhookEndpoint.objects.filter(off=Off.NOT)
    first = listening.aggregate(since=Min("listens_since"))["since"]
    if first is None:
        return 0  # whoever comes now listens from now on
    mark, _ = WebhookWatermark.objects.get_or_create(pk=1)
    now = database_now()
    # Of the time when nobody listened there is nothing to tell, however long it was.
    rows = _missing(max(mark.scanned_until - back, first))
    is_far = back > BACK
    if is_far:
        # So much is found by user and time of birth; the few jobs that live longer than a day are
        # found by their end, in the looks that follow each other closely.
        rows = rows.filter(created_at__gte=mark.scanned_until - back - FAR_BACK)
    missing = list(rows[:MOST_ROWS])
    WebhookDelivery.objects.bulk_create(
        [_delivery(ending) for ending in missing], ignore_conflicts=True
    )
    if not is_far and len(missing) < MOST_ROWS and now - mark.scanned_until > NOTED_EVERY:
        later = WebhookWatermark.objects.filter(pk=1, scanned_until__lt=now)
        later.update(scanned_until=now)
    return len(missing)


def delete_old() -> int:
    """Delete deliveries that ended RETENTION_DAYS ago, a batch of them; how many."""
    limit = Now() - timedelta(days=settings.RETENTION_DAYS)
    old = WebhookDelivery.objects.filter(finished_at__lt=limit).order_by("finished_at")
    found = list(old.values_list("pk", flat=True)[:MOST_ROWS])
    if found:
        WebhookDelivery.objects.ended().filter(pk__in=found).delete()
    return len(found)


def _missing(since: datetime) -> JobQuerySet:
    """Each ending with each endpoint that should be told of it and is not yet."""
    endpoint = "user__webhook_endpoints__"
    is_wanted = Q(status=Status.SUCCEEDED, **{f"{endpoint}on_success": True})
    is_wanted |= Q(status=Status.FAILED, **{f"{endpoint}on_failure": True})
    told = WebhookDelivery.objects.filter(job_id=OuterRef("pk"), endpoint_id=OuterRef("endpoint"))
    return (
        ReportJob.objects.filter(
            is_wanted,
            **{f"{endpoint}off": Off.NOT},
            user__is_active=True,
            finished_at__gte=since,
            finished_at__gt=F(f"{endpoint}listens_since"),
        )
        .annotate(endpoint=F(f"{endpoint}pk"), is_response=Q(openai_request__isnull=False))
        .filter(~Exists(told))
        .order_by("finished_at")
        .only(*TOLD)
    )


def _delivery(job: ReportJob) -> WebhookDelivery:
    read, at = vars(job), job.finished_at
    assert at is not None  # noqa: S101  # a database CHECK holds it for what ended
    made = WebhookDelivery(
        endpoint_id=read["endpoint"], user_id=job.user_id, job_id=job.pk, next_try_at=Now()
    )
    if read["is_response"]:
        made.event = Event(f"response.{objects.status_of(job)}")
        made.body = payloads.of_response(made.event, at=at, message_id=made.pk, job_id=job.pk)
        return made
    made.event = BY_STATUS[Status(job.status)]
    data = payloads.of_ending(
        job.pk, status=job.status, http_status=job.http_status, error_code=job.error_code
    )
    made.body = payloads.body(made.event, at=at, data=data)
    return made
