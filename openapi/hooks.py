"""The operations of webhooks, and their shapes: a table beside the views, as for reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openapi import headers
from openapi.answers import Answers, answer, empty
from openapi.building import operation
from openapi.schemas import JOB_ID, NO_NUL, Schema, closed, ref
from reports import errors
from reports.parsing import JSON
from webhooks import addresses, endpoints
from webhooks.models import LONGEST_DESCRIPTION, Event, Off, State

if TYPE_CHECKING:
    from openapi.operations import Operation

HOOK_ID: Final = "01a228c1-0c1e-7d10-9f3e-5b7a3c2d1e0f"
DELIVERY_ID: Final = "01a228c1-3d5a-7b2c-8e4f-1a2b3c4d5e6f"
AT: Final = "2026-11-30T01:00:00.000000Z"
INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
INSTANT_OR_NULL: Final[Schema] = {"type": ["string", "null"], "format": "date-time"}
UUID: Final[Schema] = {"type": "string", "format": "uuid"}
EVENTS: Final[Schema] = {
    "type": "array",
    "description": "Of jobs of `/v1/responses`, `report.succeeded` stands for `response.completed` "
    "and `response.incomplete`, `report.failed` for `response.failed` and `response.cancelled`.",
    "items": {"enum": [*endpoints.EVENTS]},
    "minItems": 1,
}
SETTINGS: Final[Schema] = {
    "url": {
        "type": "string",
        "maxLength": addresses.LONGEST_URL,
        "description": "https, a public host, port 443 or one from 1024 on; no user, no fragment.",
    },
    "description": {
        "type": "string",
        "maxLength": LONGEST_DESCRIPTION,
        "pattern": NO_NUL,
    },
    "events": EVENTS,
    "is_enabled": {"type": "boolean"},
}
HOOK: Final[Schema] = {
    "webhook_id": UUID,
    "url": {"type": "string"},
    "description": {"type": "string"},
    "events": EVENTS | {"minItems": 0},
    "is_enabled": {"type": "boolean"},
    "why_disabled": {"enum": [*(why for why in Off.values if why), None]},
    "failing_since": INSTANT_OR_NULL | {"description": "The first failure since a success."},
    "old_secret_until": INSTANT_OR_NULL | {"description": "Till when two secrets sign."},
    "created_at": INSTANT,
}
SECRET: Final[Schema] = {
    "type": "string",
    "pattern": "^whsec_[A-Za-z0-9+/]+=*$",
    "description": "Shown this once.",
}
ATTEMPT: Final[Schema] = closed(
    {"at": INSTANT, "outcome": {"type": "string"}, "detail": {"type": "string"}}
)
DELIVERY: Final[Schema] = {
    "delivery_id": UUID,
    "message_id": {"type": "string", "description": "The `webhook-id` header of each attempt."},
    "event": {"enum": Event.values},
    "job_id": UUID | {"type": ["string", "null"]},
    "state": {"enum": State.values},
    "attempts": {"type": "integer", "minimum": 0},
    "next_try_at": INSTANT_OR_NULL,
    "http_status": {"type": ["integer", "null"], "description": "Of the last answer."},
    "detail": {"type": "string", "description": "What became of the last attempt."},
    "history": {"type": "array", "items": ATTEMPT},
    "created_at": INSTANT,
    "finished_at": INSTANT_OR_NULL,
}


def _page(name: str) -> Schema:
    return closed({"results": {"type": "array", "items": ref(name)}})


SCHEMAS: Final[dict[str, Schema]] = {
    "NewWebhook": {"type": "object", "required": ["url"], "properties": SETTINGS},
    "WebhookChange": {"type": "object", "properties": SETTINGS},
    "Webhook": closed(HOOK),
    "WebhookWithSecret": closed(HOOK | {"secret": SECRET}),
    "WebhookPage": _page("Webhook"),
    "Delivery": closed(DELIVERY),
    "DeliveryPage": _page("Delivery"),
}
SHOWN: Final[dict[str, Any]] = {
    "webhook_id": HOOK_ID,
    "url": "https://hooks.example.org/reports",
    "description": "the archive",
    "events": [*endpoints.EVENTS],
    "is_enabled": True,
    "why_disabled": None,
    "failing_since": None,
    "old_secret_until": None,
    "created_at": AT,
}
WITH_SECRET: Final = SHOWN | {"secret": "whsec_c2VjcmV0IG9mIHRoZSBkb2N1bWVudCwgbm8gb25lJ3M="}
DELIVERED: Final[dict[str, Any]] = {
    "delivery_id": DELIVERY_ID,
    "message_id": f"msg_{DELIVERY_ID.replace('-', '')}",
    "event": "report.succeeded",
    "job_id": JOB_ID,
    "state": "delivered",
    "attempts": 1,
    "next_try_at": None,
    "http_status": 204,
    "detail": "It answered 204 No Content.",
    "history": [{"at": AT, "outcome": "delivered", "detail": "It answered 204 No Content."}],
    "created_at": AT,
    "finished_at": AT,
}
WAITING: Final = DELIVERED | {
    "state": "pending",
    "attempts": 0,
    "next_try_at": AT,
    "http_status": None,
    "detail": "",
    "history": [],
    "finished_at": None,
}
PRIVATE: Final = {"Cache-Control": headers.PRIVATE}


def _id(name: str, example: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": "A malformed id, an unknown one and somebody else's are the same 404.",
        "schema": UUID,
        "example": example,
    }


WEBHOOK: Final = _id("webhook_id", HOOK_ID)


def _body(shape: str, example: object) -> dict[str, Any]:
    return {"required": True, "content": {JSON: {"schema": ref(shape), "example": example}}}


def _operation(
    name: str,
    summary: str,
    responses: Answers,
    *refusals: type[errors.Refusal],
    parameters: tuple[dict[str, Any], ...] = (WEBHOOK,),
    **rest: Any,
) -> Operation:
    found = (errors.NotFound,) if parameters else ()
    told = (*found, *refusals)
    return operation("webhooks", name, summary, responses, *told, parameters=parameters, **rest)


BODY: Final = (errors.InvalidRequest, errors.UnsupportedMediaType)
BY_VIEW: Final[dict[tuple[str, str], Operation]] = {
    ("WebhookListView", "GET"): _operation(
        "listWebhooks",
        "Your webhooks",
        {"200": answer("All of them.", "WebhookPage", PRIVATE, all={"results": [SHOWN]})},
        parameters=(),
        is_read=True,
    ),
    ("WebhookListView", "POST"): _operation(
        "createWebhook",
        "Be told when a job of yours has ended",
        {
            "201": answer(
                "Made. Its secret is shown this once.",
                "WebhookWithSecret",
                PRIVATE | {"Location": headers.HOOK_LOCATION},
                made=WITH_SECRET,
            )
        },
        *BODY,
        errors.NotFound,
        errors.TooManyWebhooks,
        parameters=(),
        requestBody=_body("NewWebhook", {"url": "https://hooks.example.org/reports"}),
    ),
    ("WebhookView", "GET"): _operation(
        "getWebhook",
        "One webhook as it is now",
        {"200": answer("The webhook.", "Webhook", PRIVATE, on=SHOWN)},
        is_read=True,
    ),
    ("WebhookView", "PATCH"): _operation(
        "changeWebhook",
        "Change what is named",
        {"200": answer("As it is now.", "Webhook", PRIVATE, on=SHOWN)},
        *BODY,
        requestBody=_body("WebhookChange", {"events": ["report.failed"]}),
    ),
    ("WebhookView", "DELETE"): _operation(
        "deleteWebhook", "Delete it with its deliveries", {"204": empty("Deleted.")}
    ),
    ("WebhookRotateView", "POST"): _operation(
        "rotateWebhook",
        "Give it a new secret; for a day both sign",
        {"200": answer("With the new secret.", "WebhookWithSecret", PRIVATE, made=WITH_SECRET)},
    ),
    ("WebhookTestView", "POST"): _operation(
        "testWebhook",
        "Send it a `report.test`",
        {"202": answer("On its way.", "Delivery", PRIVATE, waiting=WAITING)},
        errors.WebhookOff,
    ),
    ("DeliveryListView", "GET"): _operation(
        "listDeliveries",
        "What became of its messages: the last hundred, the newest first",
        {"200": answer("Deliveries.", "DeliveryPage", PRIVATE, last={"results": [DELIVERED]})},
        is_read=True,
    ),
    ("ReplayView", "POST"): _operation(
        "replayDelivery",
        "Send an ended delivery anew, under the same `webhook-id`",
        {"202": answer("On its way.", "Delivery", PRIVATE, waiting=WAITING)},
        errors.WebhookOff,
        errors.DeliveryActive,
        parameters=(WEBHOOK, _id("delivery_id", DELIVERY_ID)),
    ),
}
