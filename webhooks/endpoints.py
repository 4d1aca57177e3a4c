"""What owners do to their webhooks: make, change, give a new secret, try out, switch off and on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from budgets.rows import Now
from reports.errors import DeliveryActive, InvalidRequest, TooManyWebhooks, WebhookOff
from reports.wishes import UNSTORABLE
from webhooks import addresses, deliveries, outbox, payloads, signing
from webhooks.addresses import Unfit
from webhooks.models import (
    ALIKE,
    LONGEST_DESCRIPTION,
    Event,
    Off,
    State,
    WebhookDelivery,
    WebhookEndpoint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_ENDPOINTS = 10
# How long both secrets sign after a rotation: time to bring the new one to every receiver.
OVERLAP = timedelta(hours=24)
LOOK_UP_S = 2.0  # a request waits for a name server no longer
EVENTS = tuple(event.value for event in ALIKE)
MEMBERS = ("url", "description", "events", "is_enabled")


@dataclass(frozen=True, slots=True)
class Made:
    """An endpoint and its secret, which is shown this once."""

    endpoint: WebhookEndpoint
    secret: str


def create(user_id: int, body: Mapping[str, object]) -> Made:
    """A new endpoint. Raises InvalidRequest or TooManyWebhooks."""
    if "url" not in body:
        raise InvalidRequest(url="The address is missing.")
    columns = _columns(body)
    if WebhookEndpoint.objects.owned_by(user_id).count() >= MOST_ENDPOINTS:
        raise TooManyWebhooks(members={"max_webhooks": MOST_ENDPOINTS})
    made = WebhookEndpoint.objects.create(user_id=user_id, seed=signing.new_seed(), **columns)
    made.refresh_from_db()
    return Made(made, signing.secret_of(made.seed))


def change(endpoint: WebhookEndpoint, body: Mapping[str, object]) -> WebhookEndpoint:
    """Change what is named, and nothing else. Raises InvalidRequest."""
    columns = _columns(body)
    wants_more = any(
        columns.get(name) and not getattr(endpoint, name) for name in ("on_success", "on_failure")
    )
    if wants_more or columns.get("off") == Off.NOT:
        # What it did not ask for before it is not told of now; what it did ask for is not lost.
        outbox.note()
        columns |= {"listens_since": Now()}
    if columns.get("off") == Off.NOT:
        columns |= {"failing_since": None}
    if columns:
        WebhookEndpoint.objects.filter(pk=endpoint.pk).update(**columns)
        endpoint.refresh_from_db()
    return endpoint


def rotate(endpoint: WebhookEndpoint) -> Made:
    """Give a new secret; the one before signs beside it for OVERLAP, and any older ends now."""
    seed = signing.new_seed()
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(
        seed=seed, old_seed=endpoint.seed, old_seed_until=Now() + OVERLAP
    )
    endpoint.refresh_from_db()
    return Made(endpoint, signing.secret_of(seed))


def try_out(endpoint: WebhookEndpoint) -> WebhookDelivery:
    """Send a message that is about nothing. Raises WebhookOff."""
    if not endpoint.is_enabled:
        raise WebhookOff
    made = WebhookDelivery.objects.create(
        endpoint=endpoint,
        user_id=endpoint.user_id,
        event=Event.TEST,
        state=State.PENDING,
        body=payloads.body(Event.TEST, at=timezone.now(), data={"webhook_id": str(endpoint.pk)}),
    )
    made.refresh_from_db()
    return made


def send_again(endpoint: WebhookEndpoint, delivery: WebhookDelivery) -> WebhookDelivery:
    """Send an ended delivery anew. Raises WebhookOff or DeliveryActive."""
    if not endpoint.is_enabled:
        raise WebhookOff
    if not deliveries.replay(delivery):
        raise DeliveryActive
    delivery.refresh_from_db()
    return delivery


def _columns(body: Mapping[str, object]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if "url" in body:
        columns["url"] = _url(body["url"])
    if "description" in body:
        columns["description"] = _description(body["description"])
    if "events" in body:
        events = _events(body["events"])
        columns["on_success"] = Event.SUCCEEDED in events
        columns["on_failure"] = Event.FAILED in events
    if "is_enabled" in body:
        if not isinstance(body["is_enabled"], bool):
            raise InvalidRequest(is_enabled="It is true or false.")
        columns["off"] = Off.NOT if body["is_enabled"] else Off.OWNER
    return columns


def _url(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(url="The address must be a string.")
    try:
        addresses.resolve(addresses.parse(value), within_s=LOOK_UP_S)
    except Unfit as unfit:
        raise InvalidRequest(url=str(unfit)) from None
    return value


def _description(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_DESCRIPTION:
        raise InvalidRequest(
            description=f"It must be a string of up to {LONGEST_DESCRIPTION} characters."
        )
    if UNSTORABLE.search(value):
        raise InvalidRequest(description="It holds a NUL or half of a surrogate pair.")
    return value


def _events(value: object) -> list[str]:
    if not isinstance(value, list) or not value or any(event not in EVENTS for event in value):
        raise InvalidRequest(events=f"A list of one or more of {', '.join(EVENTS)}.")
    return value
