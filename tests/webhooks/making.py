"""Endpoints, messages to them, and attempts."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from budgets.rows import Now
from tests.support.expect import body_of
from webhooks import loops, outbox, signing
from webhooks.models import WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from django.http import HttpResponse

    from tests.support.clients import Api


def call(api: Api, method: str, path: str, **body: object) -> HttpResponse:
    """A request with a JSON body."""
    raw = json.dumps(body).encode()
    return api.request(method, path, data=raw, content_type="application/json")


def make(api: Api, url: str, **body: object) -> dict[str, Any]:
    """Make a webhook by the API; the answer, with its secret."""
    response = call(api, "POST", "/webhooks", url=url, **body)
    assert response.status_code == 201, response.content
    made: dict[str, Any] = body_of(response)
    return made


def listening(api: Api, url: str, **columns: object) -> WebhookEndpoint:
    """An endpoint that has been there for a while."""
    long_ago = Now() - timedelta(days=9)
    columns = {"listens_since": long_ago, "seed": signing.new_seed(), **columns}
    made = WebhookEndpoint.objects.create(user=api.user, url=url, **columns)
    made.refresh_from_db()
    return made


def all_deliveries() -> list[WebhookDelivery]:
    """All of them, the oldest first."""
    return list(WebhookDelivery.objects.order_by("pk"))


def attempt() -> WebhookDelivery:
    """Note what has ended, and make one attempt of the one delivery that there is."""
    outbox.note()
    [delivery] = all_deliveries()
    make_due(delivery)
    assert loops.deliver(delivery.pk)
    delivery.refresh_from_db()
    return delivery


def make_due(delivery: WebhookDelivery) -> None:
    """Its wait or its lease is over."""
    WebhookDelivery.objects.filter(pk=delivery.pk).exclude(next_try_at=None).update(
        next_try_at=Now() - timedelta(seconds=1)
    )
