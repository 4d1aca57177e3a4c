"""The rows of webhooks: endpoints of users, and what became of each message to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.conf import settings
from django.db import models
from django.db.models import F, Q, Value

from budgets.rows import Now
from reports import ids
from reports.errors import NotFound
from reports.models import CANONICAL_UUID
from webhooks.addresses import LONGEST_URL
from webhooks.signing import LONGEST_SEED

if TYPE_CHECKING:
    from datetime import datetime

LONGEST_DESCRIPTION = 200


class Event(models.TextChoices):
    """What a message can be about; a job of /v1/responses is told of in OpenAI's words."""

    SUCCEEDED = "report.succeeded"
    FAILED = "report.failed"
    TEST = "report.test"  # asked for by the owner
    RESPONSE_COMPLETED = "response.completed"
    RESPONSE_INCOMPLETE = "response.incomplete"
    RESPONSE_FAILED = "response.failed"
    RESPONSE_CANCELLED = "response.cancelled"


# What an endpoint is told of that asked for the first.
ALIKE = {
    Event.SUCCEEDED: (Event.RESPONSE_COMPLETED, Event.RESPONSE_INCOMPLETE),
    Event.FAILED: (Event.RESPONSE_FAILED, Event.RESPONSE_CANCELLED),
}


class State(models.TextChoices):
    """How far a delivery is."""

    PENDING = "pending"  # waits for its next attempt
    RUNNING = "running"  # an attempt is being made
    DELIVERED = "delivered"  # answered with 2xx
    FAILED = "failed"  # no more attempts


class Off(models.TextChoices):
    """Why an endpoint gets nothing."""

    NOT = "", "it is on"
    OWNER = "owner", "its owner switched it off"
    GONE = "gone", "it answered 410 Gone"
    FAILING = "failing", "every attempt of five days failed"
    OPERATOR = "operator", "an operator switched it off"


class EndpointQuerySet(models.QuerySet["WebhookEndpoint"]):
    """Reads of endpoints, chainable."""

    def owned_by(self, user_id: int) -> EndpointQuerySet:
        """One user's own."""
        return self.filter(user_id=user_id)

    def access(self, user_id: int, endpoint_id: str) -> WebhookEndpoint:
        """One user's endpoint by the id of a request. Raises NotFound for everything else."""
        if CANONICAL_UUID.fullmatch(endpoint_id):
            endpoint = self.owned_by(user_id).filter(pk=UUID(endpoint_id)).first()
            if endpoint is not None:
                return endpoint
        raise NotFound


class WebhookEndpoint(models.Model):
    """Where one user's messages go."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhook_endpoints"
    )
    url = models.CharField(max_length=LONGEST_URL)
    description = models.CharField(max_length=LONGEST_DESCRIPTION, blank=True, default="")
    on_success = models.BooleanField(
        default=True, help_text="Gets report.succeeded, response.completed, response.incomplete."
    )
    on_failure = models.BooleanField(
        default=True, help_text="Gets report.failed, response.failed, response.cancelled."
    )
    off = models.CharField(
        max_length=8, choices=Off, blank=True, default=Off.NOT, help_text="Why it gets nothing."
    )
    listens_since = models.DateTimeField(
        db_default=Now(), help_text="Of jobs that ended before it hears nothing."
    )
    failing_since = models.DateTimeField(
        null=True, help_text="The first failure after the last success."
    )
    seed = models.CharField(max_length=LONGEST_SEED, help_text="What its secret follows from.")
    old_seed = models.CharField(
        max_length=LONGEST_SEED, default="", help_text="The same of the secret before."
    )
    old_seed_until = models.DateTimeField(null=True, help_text="Till when both are signed with.")
    created_at = models.DateTimeField(db_default=Now())

    objects = EndpointQuerySet.as_manager()

    class Meta:
        """In the order in which they were made."""

        ordering = ("pk",)

    def __str__(self) -> str:
        return f"{self.pk}"

    @property
    def is_enabled(self) -> bool:
        """Whether messages go there."""
        return self.off == Off.NOT

    @property
    def events(self) -> list[str]:
        """What it is told of."""
        wanted = ((Event.SUCCEEDED, self.on_success), (Event.FAILED, self.on_failure))
        return [event.value for event, is_wanted in wanted if is_wanted]

    def seeds(self, now: datetime) -> list[str]:
        """Of the secrets that are good now, the newest first."""
        is_old_good = self.old_seed_until is not None and self.old_seed_until > now
        return [self.seed, *([self.old_seed] if is_old_good else [])]


class DeliveryQuerySet(models.QuerySet["WebhookDelivery"]):
    """Reads of deliveries, chainable; each is one adjective."""

    def due(self) -> DeliveryQuerySet:
        """Whose next attempt may begin: it is time, or the worker that had it is gone."""
        is_time = Q(state=State.PENDING, next_try_at__lte=Now())
        is_left = Q(state=State.RUNNING, next_try_at__lte=Now())
        return self.filter(is_time | is_left)

    def ended(self) -> DeliveryQuerySet:
        """Delivered, or given up."""
        return self.filter(state__in=[State.DELIVERED, State.FAILED])

    def access(self, endpoint: WebhookEndpoint, delivery_id: str) -> WebhookDelivery:
        """An endpoint's delivery by the id of a request. Raises NotFound for everything else."""
        if CANONICAL_UUID.fullmatch(delivery_id):
            delivery = self.filter(endpoint=endpoint, pk=UUID(delivery_id)).first()
            if delivery is not None:
                return delivery
        raise NotFound


class WebhookDelivery(models.Model):
    """One message to one endpoint, and its attempts."""

    id = models.UUIDField(primary_key=True, default=ids.uuid7, editable=False)
    endpoint = models.ForeignKey(
        WebhookEndpoint, on_delete=models.CASCADE, related_name="deliveries", db_index=False
    )
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    # No foreign key: a message outlives its job's row, and a test has none.
    job_id = models.UUIDField(null=True)
    event = models.CharField(max_length=32, choices=Event)
    body = models.TextField(help_text="Exactly what is sent and signed; it holds no text of a job.")
    state = models.CharField(max_length=9, choices=State, default=State.PENDING)
    attempts = models.SmallIntegerField(default=0, help_text="Since it was made or replayed.")
    next_try_at = models.DateTimeField(
        null=True,
        db_default=Now(),
        help_text="The next attempt; while one is made, the end of its lease.",
    )
    claim_id = models.UUIDField(null=True, help_text="The right to write what became of it.")
    http_status = models.SmallIntegerField(null=True, help_text="Of the last answer.")
    detail = models.CharField(
        max_length=200, default="", help_text="What became of the last attempt."
    )
    history = models.JSONField(
        default=list,
        db_default=Value([], models.JSONField()),
        help_text="Each attempt: when, how it came out, in which words.",
    )
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(F("endpoint"), F("id").desc(), name="webhookdelivery_list_idx"),
            # Only what is not ended: the loop that looks for work finds it at once.
            models.Index(
                "next_try_at",
                name="webhookdelivery_due_idx",
                condition=Q(state__in=["pending", "running"]),
            ),
            models.Index(
                "finished_at",
                name="webhookdelivery_old_idx",
                condition=Q(finished_at__isnull=False),
            ),
        ]
        constraints: ClassVar = [
            # One message for one ending, however often it is noticed; a test has no job.
            models.UniqueConstraint(
                fields=["job_id", "endpoint", "event"], name="webhookdelivery_once"
            ),
            models.CheckConstraint(
                condition=Q(state__in=[state.value for state in State]),
                name="webhookdelivery_state_known",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["pending", "running"], next_try_at__isnull=False)
                | Q(state__in=["delivered", "failed"], next_try_at__isnull=True),
                name="webhookdelivery_next_iff_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk} ({self.state})"

    @property
    def webhook_id(self) -> str:
        """Its name for the receiver: the same at each attempt, also when it is replayed."""
        return f"msg_{self.pk.hex}"

    @property
    def is_ended(self) -> bool:
        """Whether no attempt is to come."""
        return self.state in (State.DELIVERED, State.FAILED)


class WebhookWatermark(models.Model):
    """One row: up to which instant the endings of jobs were looked through."""

    scanned_until = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.scanned_until}"
