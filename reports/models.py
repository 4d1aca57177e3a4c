"""The job row: what is kept of one completion, and its constraints. No writes."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q, Value

from budgets.rows import Now, UtcToday
from reports import ids
from reports.conversation import Conversation
from reports.errors import ErrorCode
from reports.queries import CANONICAL_UUID, COUNTED_AHEAD, TERMINAL, JobQuerySet, Status

# What others know by this room's name.
__all__ = [
    "CANONICAL_UUID",
    "COUNTED_AHEAD",
    "TERMINAL",
    "JobQuerySet",
    "ReportJob",
    "Status",
    "UsageDay",
]
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
    metadata = models.JSONField(
        default=dict,
        db_default=Value({}, models.JSONField()),
        help_text="Labels of the client's own, as they were sent; none once erased.",
    )
    expires_at = models.DateTimeField(
        null=True, help_text="Not to be claimed after: a limit of its own, within QUEUE_TTL_S."
    )
    again_of = models.UUIDField(
        null=True, help_text="The job that this one repeats; it may be deleted since."
    )

    openai_request = models.JSONField(
        null=True,
        help_text="What was asked at /v1/responses, {} once erased; null: not asked there.",
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
            # Those with a limit of their own; the others are not in it and pay nothing for it.
            models.Index(
                "expires_at",
                name="reportjob_expiry_idx",
                condition=Q(status="queued", expires_at__isnull=False),
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
    def conversation(self) -> Conversation | None:
        """What was asked in messages. None: a prompt, or its texts are gone."""
        return Conversation.of(self.openai_request)

    @property
    def identity(self) -> str:
        """What tells its request from another under the same key, while its texts are there."""
        asked = self.conversation
        return self.prompt if asked is None else asked.identity

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
