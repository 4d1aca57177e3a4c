"""The job row: what is kept of one completion, its constraints and its reads. No writes."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import Case, F, OuterRef, Q, Value, When

from budgets.compiled import Given, Reading, Text, select
from budgets.rows import CountUpTo, Now, UtcToday, database_now
from reports import ids
from reports.errors import ErrorCode, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from django.db.models.expressions import CombinedExpression

COUNTED_AHEAD = 1000
CANONICAL_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Status(models.TextChoices):
    """The four states; a job ends in one of the last two and never changes again."""

    QUEUED = "queued"  # accepted, waiting for a worker
    RUNNING = "running"  # claimed: its provider call may have been made
    SUCCEEDED = "succeeded"  # the text is there
    FAILED = "failed"  # it is not; error_code says why


TERMINAL = (Status.SUCCEEDED, Status.FAILED)
UNFINISHED = Q(finished_at=None, http_status=None, error_code="")
FINISHED = Q(finished_at__isnull=False, http_status__isnull=False)
CLAIMED = Q(claim_id__isnull=False, lease_expires_at__isnull=False)
UNCLAIMED = Q(claim_id=None, lease_expires_at=None)
FITS_ITS_STATUS = (  # what a row may hold; there is no fifth status
    (Q(status="queued") & UNFINISHED & UNCLAIMED)
    | (Q(status="running") & UNFINISHED & CLAIMED)
    | (Q(status="succeeded", error_code="") & FINISHED & (CLAIMED | UNCLAIMED))
    | (Q(status="failed") & ~Q(error_code="") & FINISHED & (CLAIMED | UNCLAIMED))
)


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
        """Queued, younger than QUEUE_TTL_S, and not waiting for another try."""
        is_due = Q(try_after=None) | Q(try_after__lte=Now())
        return self.queued().filter(is_due, created_at__gt=queue_limit())

    def expired(self) -> JobQuerySet:
        """Queued for longer than QUEUE_TTL_S."""
        return self.queued().filter(created_at__lte=queue_limit())

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
        older = ReportJob.objects.queued().filter(created_at__lt=OuterRef("created_at"))
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
                job = ReportJob.from_db(self.db, _columns(), row[:-1])
                vars(job)["counted_ahead"] = row[-1]
                return job
        raise NotFound


@cache
def _columns() -> list[str]:
    return [field.attname for field in ReportJob._meta.concrete_fields]


def _accessed() -> tuple[Text, Sequence[Any]]:
    mine = ReportJob.objects.filter(
        user_id=Given("user_id", models.BigIntegerField()), pk=Given("job_id", models.UUIDField())
    )
    return select(mine.with_jobs_ahead().values_list(*_columns(), "counted_ahead"))


ACCESSED = Reading(_accessed)


class ReportJob(models.Model):
    """The coat-check ticket for one completion."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    idempotency_key = models.CharField(max_length=255)
    prompt = models.TextField(help_text="Exactly as it was sent; empty once erased.")
    prompt_digest = models.CharField(
        max_length=64,
        default="",
        help_text="Keyed hash of the prompt, kept when the texts are erased.",
    )
    status = models.CharField(max_length=9, choices=Status, default=Status.QUEUED)
    http_status = models.SmallIntegerField(null=True, help_text="Of the ending; null until then.")
    result_text = models.TextField(default="")
    finish_reason = models.CharField(
        max_length=64, default="", help_text="The provider's word, such as stop or length."
    )
    error_code = models.CharField(
        max_length=32, default="", choices=[(code.value, code.value) for code in ErrorCode]
    )
    error_detail = models.CharField(
        max_length=500, default="", help_text="What happened, in words, without secrets."
    )
    token_estimate = models.BigIntegerField(help_text="Tokens reserved at accept.")
    day_utc = models.DateField(
        db_default=UtcToday(), help_text="The UTC day whose budget carries the reservation."
    )
    prompt_tokens = models.IntegerField(null=True, help_text="As the provider reported.")
    completion_tokens = models.IntegerField(null=True, help_text="As the provider reported.")
    is_prompt_cut = models.BooleanField(
        db_default=False,
        help_text="The provider counted far fewer tokens of prompt than were sent to it.",
    )
    settled_tokens = models.BigIntegerField(
        null=True, help_text="What the day was charged in the end; null until then."
    )
    is_unclear = models.BooleanField(
        db_default=False,
        help_text="It failed after its call may have been made: the provider may bill it.",
    )
    attempts = models.SmallIntegerField(
        db_default=0, help_text="Claims so far; more than one only with INFERENCE_MAX_ATTEMPTS."
    )
    try_after = models.DateTimeField(
        null=True, help_text="Not to be claimed before: the wait before another try."
    )
    claim_id = models.UUIDField(null=True, help_text="The right to finish this job.")
    lease_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)
    publish_again_at = models.DateTimeField(
        db_default=Now(), help_text="When the sweep takes the message of a queued job for lost."
    )
    republished = models.SmallIntegerField(default=0, help_text="How often the sweep did.")
    timeline = models.JSONField(
        default=list,
        db_default=Value([], models.JSONField()),
        help_text="What became of it after accept; `timeline.steps` reads it.",
    )

    objects = JobQuerySet.as_manager()

    class Meta:
        unique_together = (("user", "idempotency_key"),)
        permissions = (("view_text", "Can see prompts and texts of report jobs"),)
        indexes: ClassVar = [
            # GET /reports and the history: newest first, of one user.
            models.Index(
                F("user"), F("created_at").desc(), F("id").desc(), name="reportjob_history_idx"
            ),
            # The same of failures, which may be few among very many.
            models.Index(
                fields=["user", "-created_at", "-id"],
                name="reportjob_failed_history_idx",
                condition=Q(status="failed"),
            ),
            # jobs_ahead and the sweep: few rows are ever queued or running, so both stay small.
            models.Index("created_at", name="reportjob_queue_idx", condition=Q(status="queued")),
            models.Index(
                "publish_again_at", name="reportjob_publish_idx", condition=Q(status="queued")
            ),
            # Retention: endings whose texts are still there, the oldest first.
            models.Index(
                "finished_at",
                name="reportjob_retention_idx",
                condition=Q(erased_at=None, finished_at__isnull=False),
            ),
            models.Index(
                "lease_expires_at", name="reportjob_lease_idx", condition=Q(status="running")
            ),
            # The operators' last hour, which the index alone answers.
            models.Index(
                "finished_at",
                "error_code",
                name="reportjob_endings_idx",
                condition=Q(finished_at__isnull=False),
            ),
            # The admin's filters: failures are few, and those of one code fewer.
            models.Index(
                "error_code", "id", name="reportjob_failures_idx", condition=Q(status="failed")
            ),
        ]
        # One for all: PostgreSQL reads each anew for each row that is written.
        constraints: ClassVar = [
            models.CheckConstraint(condition=FITS_ITS_STATUS, name="reportjob_fits_its_status"),
        ]

    def __str__(self) -> str:
        return f"{self.pk} ({self.status})"

    @property
    def jobs_ahead(self) -> int | None:
        """Older queued jobs, counted to 1000 at most; None unless queued and read with them."""
        count: int | None = vars(self).get("counted_ahead")
        return count

    @property
    def is_terminal(self) -> bool:
        """Whether the job has ended for good."""
        return self.status in TERMINAL

    @property
    def is_erased(self) -> bool:
        """Whether its texts are gone."""
        return self.erased_at is not None


class UsageDay(models.Model):
    """What one user's jobs of one UTC day came to. Written once, when the day is over for good."""

    day_utc = models.DateField()
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    jobs = models.BigIntegerField()
    reserved_tokens = models.BigIntegerField(help_text="Reserved at accept.")
    settled_tokens = models.BigIntegerField(help_text="Charged in the end.")
    released_tokens = models.BigIntegerField(help_text="Reserved and given back.")
    unclear_ends = models.BigIntegerField(help_text="Failures that may still be billed.")
    unclear_tokens = models.BigIntegerField(help_text="What those had reserved.")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["day_utc", "user"], name="usageday_one_a_user"),
        ]

    def __str__(self) -> str:
        return f"{self.day_utc} of user {self.user_id}"
