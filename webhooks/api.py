"""The HTTP API of webhooks: parse, call one function, render."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse
from rest_framework.response import Response
from rest_framework.views import APIView

from budgets.api import user_id_of
from reports import parsing
from reports.errors import InvalidRequest
from reports.serializers import instant
from webhooks import endpoints
from webhooks.models import WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from rest_framework.request import Request

PRIVATE = {"Cache-Control": "private, no-cache"}
SHOWN_DELIVERIES = 100


class WebhookListView(APIView):
    """Webhooks: addresses of yours that are told when a job of yours has ended."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Webhooks"

    def get(self, request: Request) -> Response:
        """All of yours. A secret is shown only when it is made."""
        rows = WebhookEndpoint.objects.owned_by(user_id_of(request))
        return _answer({"results": [as_json(endpoint) for endpoint in rows]})

    def post(self, request: Request) -> Response:
        """Make one: `url`, and if you like `description` and `events`. Keep its `secret`."""
        made = endpoints.create(user_id_of(request), _body(request))
        location = reverse("webhook-detail", args=[made.endpoint.pk])
        fields = as_json(made.endpoint) | {"secret": made.secret}
        return Response(fields, status=201, headers={**PRIVATE, "Location": location})


class WebhookView(APIView):
    """One webhook."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Webhook"

    def get(self, request: Request, webhook_id: str) -> Response:
        """The webhook as it is now."""
        return _answer(as_json(_access(request, webhook_id)))

    def patch(self, request: Request, webhook_id: str) -> Response:
        """Change `url`, `description`, `events` or `is_enabled`; what is not named stays."""
        endpoint = _access(request, webhook_id)
        return _answer(as_json(endpoints.change(endpoint, _body(request))))

    def delete(self, request: Request, webhook_id: str) -> Response:
        """Delete it with its deliveries, also those that are still to come."""
        _access(request, webhook_id).delete()
        return Response(status=204)


class WebhookRotateView(APIView):
    """Give a webhook another secret."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "New secret"

    def post(self, request: Request, webhook_id: str) -> Response:
        """Make a new `secret`. For a day messages are signed with both, then with it alone."""
        made = endpoints.rotate(_access(request, webhook_id))
        return _answer(as_json(made.endpoint) | {"secret": made.secret})


class WebhookTestView(APIView):
    """Try a webhook out."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Test"

    def post(self, request: Request, webhook_id: str) -> Response:
        """Send a message of type `report.test`."""
        return _answer(delivery_json(endpoints.try_out(_access(request, webhook_id))), status=202)


class DeliveryListView(APIView):
    """What became of the messages to a webhook."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Deliveries"

    def get(self, request: Request, webhook_id: str) -> Response:
        """The last hundred, the newest first."""
        endpoint = _access(request, webhook_id)
        rows = WebhookDelivery.objects.filter(endpoint=endpoint).order_by("-pk")
        return _answer({"results": [delivery_json(row) for row in rows[:SHOWN_DELIVERIES]]})


class ReplayView(APIView):
    """Send a message again."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Replay"

    def post(self, request: Request, webhook_id: str, delivery_id: str) -> Response:
        """Send an ended delivery anew, under the same `webhook-id`."""
        endpoint = _access(request, webhook_id)
        delivery = WebhookDelivery.objects.access(endpoint, delivery_id)
        return _answer(delivery_json(endpoints.send_again(endpoint, delivery)), status=202)


def as_json(endpoint: WebhookEndpoint) -> dict[str, object]:
    """An endpoint as the API shows it, without its secrets."""
    return {
        "webhook_id": str(endpoint.pk),
        "url": endpoint.url,
        "description": endpoint.description,
        "events": endpoint.events,
        "is_enabled": endpoint.is_enabled,
        "why_disabled": endpoint.off or None,
        "failing_since": instant(endpoint.failing_since),
        "old_secret_until": instant(endpoint.old_seed_until),
        "created_at": instant(endpoint.created_at),
    }


def delivery_json(delivery: WebhookDelivery) -> dict[str, object]:
    """A delivery as the API shows it."""
    return {
        "delivery_id": str(delivery.pk),
        "message_id": delivery.webhook_id,
        "event": delivery.event,
        "job_id": str(delivery.job_id) if delivery.job_id else None,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "next_try_at": instant(delivery.next_try_at),
        "http_status": delivery.http_status,
        "detail": delivery.detail,
        "history": [
            {"at": at, "outcome": outcome, "detail": detail}
            for at, outcome, detail in delivery.history
        ],
        "created_at": instant(delivery.created_at),
        "finished_at": instant(delivery.finished_at),
    }


def _access(request: Request, webhook_id: str) -> WebhookEndpoint:
    return WebhookEndpoint.objects.access(user_id_of(request), webhook_id)


def _body(request: Request) -> dict[str, Any]:
    body = parsing.body_of(request)
    if not isinstance(body, dict):
        raise InvalidRequest(body="The body must be a JSON object.")
    return body


def _answer(fields: dict[str, object], *, status: int = 200) -> Response:
    return Response(fields, status=status, headers=PRIVATE)
