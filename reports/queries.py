"""How jobs are looked for: the states, the limits, and reads that chain. No writes."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.conf import settings
from django.db import models
from django.db.models import Case, OuterRef, Q, When

from budgets.compiled import Given, Reading, Text, select
from budgets.rows import CountUpTo, Now, database_now
from reports import ids
from reports.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from django.db.models.expressions import CombinedExpression

    from reports.models import ReportJob

COUNTED_AHEAD = 1000
CANONICAL_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Status(models.TextChoices):
    """The four states; a job ends in one of the last two and never changes again."""

    QUEUED = "queued"  # accepted, waiting for a worker
    RUNNING = "running"  # claimed: its provider call may have been made
    SUCCEEDED = "succeeded"  # the text is there
    FAILED = "failed"  # it is not; error_code says why


TERMINAL = (Status.SUCCEEDED, Status.FAILED)


def queue_limit() -> CombinedExpression:
    """A job accepted before this instant has waited too long."""
    return Now() - timedelta(seconds=settings.QUEUE_TTL_S)


class JobQuerySet(models.QuerySet["ReportJob"]):
    """Reads of jobs, chainable; each is one adjective."""

    def owned_by(self, user_id: int) -> JobQuerySet:
        """One user's own."""
        return self.filter(user_id=user_id)

    def queued(self) -> JobQuerySet:
        """Waiting for a worker."""
        return self.filter(status=Status.QUEUED)

    def running(self) -> JobQuerySet:
        """Held by a claim."""
        return self.filter(status=Status.RUNNING)

    def terminal(self) -> JobQuerySet:
        """Ended for good."""
        return self.filter(status__in=TERMINAL)

    def claimable(self) -> JobQuerySet:
        """Queued, within its time, and not waiting for another try."""
        is_due = Q(try_after=None) | Q(try_after__lte=Now())
        return self.queued().in_time().filter(is_due)

    def in_time(self, *, after: timedelta = timedelta(0)) -> JobQuerySet:
        """Not waited too long, nor so `after` this: QUEUE_TTL_S, or a limit of their own."""
        is_wanted = Q(expires_at=None) | Q(expires_at__gt=Now() + after)
        return self.filter(is_wanted, created_at__gt=queue_limit() + after)

    def expired(self) -> JobQuerySet:
        """Queued for longer than QUEUE_TTL_S, or than a limit of their own."""
        return self.too_old() | self.too_late()

    def too_old(self) -> JobQuerySet:
        """Queued for longer than QUEUE_TTL_S."""
        return self.queued().filter(created_at__lte=queue_limit())

    def too_late(self) -> JobQuerySet:
        """Queued for longer than a limit of their own."""
        return self.queued().filter(expires_at__lte=Now())

    def lease_expired(self) -> JobQuerySet:
        """Running, and nobody's any more."""
        return self.running().filter(lease_expires_at__lt=Now())

    def unpublished(self) -> JobQuerySet:
        """Queued, and its message may be lost."""
        return self.queued().filter(publish_again_at__lte=Now())

    def out_of_retention(self) -> JobQuerySet:
        """Terminal for longer than RETENTION_DAYS, with texts that are still there."""
        limit = Now() - timedelta(days=settings.RETENTION_DAYS)
        return self.filter(finished_at__lt=limit, erased_at=None)

    def out_of_key_retention(self) -> JobQuerySet:
        """Terminal for longer than KEY_RETENTION_DAYS; nothing when that is 0."""
        if not settings.KEY_RETENTION_DAYS:
            return self.none()
        limit = database_now() - timedelta(days=settings.KEY_RETENTION_DAYS)
        # Ids carry their time of birth: the first condition keeps the search to old rows.
        return self.filter(pk__lt=ids.lowest_at(limit), finished_at__lt=limit)

    def of_day(self, day: date) -> JobQuerySet:
        """Of one UTC day: ids carry their time of birth, so the primary key finds them."""
        first, beyond = ids.of_day(day)
        return self.filter(pk__gte=first, pk__lt=beyond, day_utc=day)

    def with_jobs_ahead(self) -> JobQuerySet:
        """Read together with `jobs_ahead`."""
        older = self.model.objects.queued().filter(created_at__lt=OuterRef("created_at"))
        counted = older.order_by().values("created_at")[:COUNTED_AHEAD]
        ahead = Case(When(status=Status.QUEUED, then=CountUpTo(counted)), default=None)
        return self.annotate(counted_ahead=ahead)

    def access(self, user_id: int, job_id: str) -> ReportJob:
        """One user's job by the id of a request: the only way from a request to a row.

        Raises NotFound for an unknown id, a malformed one and somebody else's job alike.
        """
        if CANONICAL_UUID.fullmatch(job_id):
            row = ACCESSED.first(user_id=user_id, job_id=UUID(job_id))
            if row is not None:
                job = self.model.from_db(self.db, _columns(), row[:-1])
                vars(job)["counted_ahead"] = row[-1]
                return job
        raise NotFound


@cache
def _columns() -> list[str]:
    return [field.attname for field in apps.get_model("reports.ReportJob")._meta.concrete_fields]


def _accessed() -> tuple[Text, Sequence[Any]]:
    mine = apps.get_model("reports.ReportJob").objects.filter(
        user_id=Given("user_id", models.BigIntegerField()), pk=Given("job_id", models.UUIDField())
    )
    return select(mine.with_jobs_ahead().values_list(*_columns(), "counted_ahead"))


ACCESSED = Reading(_accessed)
