"""The operations for OpenAI's clients: a table beside the views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openapi import headers
from openapi.answers import Answers, answer, empty, enveloped
from openapi.building import operation
from openapi.response_shapes import ID
from openapi.schemas import ref
from openapi.streamed import PARAMETERS, or_events
from reports import errors
from reports.parsing import JSON
from responses import objects, paging
from responses.refusals import ModelNotFound, UnsupportedParameter

if TYPE_CHECKING:
    from openapi.operations import Operation

EXAMPLE_ID: Final = "resp_01a228b868a87ae5bc7fa66f5088f81b"
MESSAGE_ID: Final = "msg_01a228b868a87ae5bc7fa66f5088f81b"
AT: Final = 1795979503
PRIVATE: Final = {"Cache-Control": headers.PRIVATE}
KEY: Final = headers.KEY | {"required": False}
RESPONSE: Final = {
    "name": "response_id",
    "in": "path",
    "required": True,
    "description": "`resp_` and the hex digits of a job's id. One that is malformed, unknown, "
    "somebody else's or deleted is the same 404.",
    "schema": ID,
    "example": EXAMPLE_ID,
}
MODEL: Final = {
    "name": "model",
    "in": "path",
    "required": True,
    "description": "The name of the model.",
    "schema": {"type": "string", "minLength": 1},
    "example": objects.model(),
}
PAGE: Final = [
    {
        "name": "order",
        "in": "query",
        "description": f"`{paging.ORDERS[0]}` where it is left out.",
        "schema": {"enum": [*paging.ORDERS]},
    },
    {
        "name": "limit",
        "in": "query",
        "description": f"Items on a page; {paging.USUAL} where it is left out.",
        "schema": {"type": "integer", "minimum": 1, "maximum": paging.MOST},
    },
    {
        "name": "after",
        "in": "query",
        "description": "The id of the last item that you have.",
        "schema": {"type": "string", "pattern": "^msg_[0-9a-f]{36}$"},
    },
]
QUEUED: Final[dict[str, Any]] = {
    "id": EXAMPLE_ID,
    "object": "response",
    "created_at": AT,
    "completed_at": None,
    "status": "queued",
    "background": True,
    "error": None,
    "incomplete_details": None,
    "instructions": "Answer a child.",
    "max_output_tokens": None,
    "model": objects.model(),
    "output": [],
    "usage": None,
    "metadata": {},
    **objects.SETTLED,
}
SAID: Final[dict[str, Any]] = {
    "id": MESSAGE_ID,
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Air scatters blue light.", "annotations": []}],
}
COMPLETED: Final = QUEUED | {
    "status": "completed",
    "completed_at": AT + 2,
    "output": [SAID],
    "usage": {
        "input_tokens": 12,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": 6,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 18,
    },
}
FAILED: Final = QUEUED | {
    "status": "failed",
    "error": {
        "code": "server_error",
        "message": "The provider answered 503 Service Unavailable (it is overloaded).",
        "param": None,
        "type": "provider_5xx",
    },
}
CANCELLED: Final = QUEUED | {"status": "cancelled"}
ASKED: Final[dict[str, Any]] = {
    "id": f"{MESSAGE_ID}0000",
    "type": "message",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_text", "text": "Why is the sky blue?"}],
}
ITEMS: Final[dict[str, Any]] = {
    "object": "list",
    "data": [ASKED],
    "first_id": ASKED["id"],
    "last_id": ASKED["id"],
    "has_more": False,
}
NEW: Final = {
    "model": objects.model(),
    "input": "Why is the sky blue?",
    "instructions": "Answer a child.",
    "background": True,
}


def _operation(
    name: str,
    summary: str,
    responses: Answers,
    *refusals: type[errors.Refusal],
    parameters: tuple[dict[str, Any], ...] = (RESPONSE,),
    **rest: Any,
) -> Operation:
    found = (errors.NotFound,) if RESPONSE in parameters else ()
    told = (*found, *refusals)
    ways = {"parameters": parameters, "refuse": enveloped, **rest}
    return operation("openai", name, summary, responses, *told, **ways)


def _link(operation: str, description: str) -> dict[str, Any]:
    return {
        "operationId": operation,
        "description": description,
        "parameters": {"response_id": "$response.body#/id"},
    }


POLLED: Final = PRIVATE | {"ETag": headers.ETAG, "Retry-After": headers.POLL_AFTER}
BY_VIEW: Final[dict[tuple[str, str], Operation]] = {
    ("ResponseListView", "POST"): _operation(
        "createResponse",
        "Accept a request of OpenAI's Responses API as work, in the background",
        {
            "200": answer(
                "Accepted, or a replay.",
                "Response",
                {
                    **PRIVATE,
                    "Location": headers.RESPONSE_LOCATION,
                    "Retry-After": headers.POLL_AFTER,
                    "Idempotency-Key": headers.KEY_USED,
                    "Idempotent-Replayed": headers.REPLAYED,
                    **headers.envelope(),
                },
                accepted=QUEUED,
                replayed=COMPLETED,
            )
            | {
                "links": {
                    "poll": _link("getResponse", "The response as it is now."),
                    "cancel": _link("cancelResponse", "End it early."),
                    "items": _link("listInputItems", "What was asked."),
                    "delete": _link("deleteResponse", "Erase its texts once it has ended."),
                }
            }
        },
        errors.KeyMissing,
        errors.KeyInvalid,
        errors.InvalidRequest,
        UnsupportedParameter,
        errors.NotFound,
        ModelNotFound,
        errors.Erased,
        errors.UnsupportedMediaType,
        errors.KeyReused,
        errors.ExceedsDailyBudget,
        errors.BudgetExhausted,
        errors.TooManyActiveJobs,
        parameters=(KEY,),
        requestBody={
            "required": True,
            "content": {JSON: {"schema": ref("NewResponse"), "example": NEW}},
        },
    ),
    ("ResponseView", "GET"): _operation(
        "getResponse",
        "One response as it is now",
        {
            "200": or_events(
                answer(
                    "The response, or its events.",
                    "Response",
                    POLLED,
                    queued=QUEUED,
                    completed=COMPLETED,
                    failed=FAILED,
                ),
                QUEUED,
            ),
            "304": empty("It is as you have it.", POLLED),
        },
        errors.InvalidRequest,
        errors.TooManyStreams,
        parameters=(RESPONSE, *PARAMETERS, headers.IF_NONE_MATCH),
        is_read=True,
    ),
    ("ResponseView", "DELETE"): _operation(
        "deleteResponse",
        "Erase an ended response for good",
        {
            "200": answer(
                "Erased.",
                "DeletedResponse",
                PRIVATE,
                deleted={"id": EXAMPLE_ID, "object": "response", "deleted": True},
            )
        },
        errors.JobActive,
    ),
    ("ResponseCancelView", "POST"): _operation(
        "cancelResponse",
        "End a response early",
        {"200": answer("The response, cancelled.", "Response", PRIVATE, cancelled=CANCELLED)},
        errors.JobFinished,
    ),
    ("InputItemsView", "GET"): _operation(
        "listInputItems",
        "What a response was asked",
        {"200": answer("Messages.", "ResponseItemPage", PRIVATE, one=ITEMS)},
        errors.InvalidRequest,
        parameters=(RESPONSE, *PAGE),
        is_read=True,
    ),
    ("ModelListView", "GET"): _operation(
        "listModels",
        "The one model that is served",
        {
            "200": answer(
                "One model.",
                "ModelPage",
                PRIVATE,
                all={"object": "list", "data": [objects.model_object()]},
            )
        },
        parameters=(),
        is_read=True,
    ),
    ("ModelView", "GET"): _operation(
        "getModel",
        "The model of a name",
        {"200": answer("The model.", "Model", PRIVATE, one=objects.model_object())},
        errors.NotFound,
        ModelNotFound,
        parameters=(MODEL,),
        is_read=True,
    ),
}
