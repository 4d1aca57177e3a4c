"""The shapes of what OpenAI's clients send and read."""

from __future__ import annotations

from typing import Final

from openapi.schemas import (
    ERROR_CODE,
    METADATA,
    NO_NUL,
    PROMPT,
    TOKENS,
    Schema,
    closed,
    or_null,
    ref,
)
from reports import ids
from responses import asking, objects, paging

UNIX: Final[Schema] = {"type": "integer", "description": "Seconds since 1970."}
STATUSES: Final = ["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
ID: Final[Schema] = {"type": "string", "pattern": f"^{ids.RESPONSE.pattern}$"}
TEXT: Final[Schema] = {"type": "string", "pattern": NO_NUL}
PART: Final[Schema] = closed({"type": {"enum": [*asking.PARTS]}, "text": TEXT})
MESSAGE: Final[Schema] = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {
        "type": {"const": "message"},
        "role": {"enum": [*asking.ROLES]},
        "content": {"anyOf": [TEXT, {"type": "array", "minItems": 1, "items": PART}]},
    },
}


def _limit() -> Schema:
    """What `max_output_tokens` may be: as the service is set up."""
    most = asking.longest_answer()
    return or_null("integer", minimum=1, maximum=most) if most else {"type": "null"}


NEW: Final[Schema] = {
    "type": "object",
    "required": ["background", "input"],
    "properties": {
        "background": {"const": True, "description": "This service holds no connections."},
        "input": {
            "anyOf": [
                {key: PROMPT["properties"]["prompt"][key] for key in ("type", "pattern")}
                | {"maxLength": PROMPT["properties"]["prompt"]["maxLength"]},
                {"type": "array", "minItems": 1, "items": ref("InputMessage")},
            ],
            "description": "A text, or messages with one of a user among them. All texts and the "
            "instructions have 8000 characters at most, with the blank lines between.",
        },
        "instructions": or_null("string", pattern=NO_NUL),
        "max_output_tokens": _limit(),
        "model": {"enum": [objects.model(), None]},
        "metadata": METADATA | {"type": ["object", "null"]},
        "expires_in_s": PROMPT["properties"]["expires_in_s"],
        "store": {"enum": [True, None]},
        "stream": {"enum": [False, None]},
        **{name: {"enum": [*values, None]} for name, values in asking.NEUTRAL.items()},
        **{name: {"type": ["string", "null"]} for name in sorted(asking.HINTS)},
    },
    "additionalProperties": {"type": "null"},
    "description": "Members that ask for what is done anyway are taken, others are refused.",
}
CONTENT: Final[Schema] = {
    "type": "object",
    "required": ["type", "text"],
    "properties": {"type": {"enum": [*asking.PARTS]}, "text": {"type": "string"}},
}
ITEM: Final[Schema] = closed(
    {
        "id": {"type": "string", "pattern": "^msg_[0-9a-f]{32,36}$"},
        "type": {"const": "message"},
        "role": {"enum": [*asking.ROLES]},
        "status": {"enum": ["completed", "incomplete"]},
        "content": {"type": "array", "items": CONTENT},
    }
)
FAILURE: Final[Schema] = closed(
    {
        "code": {"enum": ["server_error", "rate_limit_exceeded"]},
        "message": {"type": "string"},
        "param": {"type": "null"},
        "type": ERROR_CODE,
    }
)
USAGE: Final[Schema] = closed(
    {
        "input_tokens": TOKENS,
        "input_tokens_details": {"type": "object"},
        "output_tokens": TOKENS,
        "output_tokens_details": {"type": "object"},
        "total_tokens": TOKENS,
    }
)


def _maybe(shape: Schema) -> Schema:
    return {"oneOf": [shape, {"type": "null"}]}


RESPONSE: Final[Schema] = closed(
    {
        "id": ID,
        "object": {"const": "response"},
        "created_at": UNIX,
        "completed_at": UNIX | {"type": ["integer", "null"]},
        "status": {"enum": STATUSES},
        "background": {"const": True},
        "error": _maybe(FAILURE),
        "incomplete_details": _maybe(
            closed({"reason": {"enum": ["max_output_tokens", "content_filter"]}})
        ),
        "instructions": or_null("string"),
        "max_output_tokens": or_null("integer", minimum=1),
        "model": {"type": "string"},
        "output": {"type": "array", "maxItems": 1, "items": ref("ResponseItem")},
        "usage": _maybe(USAGE),
        "metadata": METADATA,
        **{name: {"const": value} for name, value in objects.SETTLED.items()},
    }
)
MODEL: Final[Schema] = closed(
    {
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": {"type": "integer"},
        "owned_by": {"type": "string"},
    }
)
LISTED: Final[Schema] = {"object": {"const": "list"}}
ERROR: Final[Schema] = closed(
    {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": or_null("string"),
                "code": {"type": "string"},
            },
            "description": "Beside these, the members of our problem documents.",
        }
    }
)
SCHEMAS: Final[dict[str, Schema]] = {
    "NewResponse": NEW,
    "InputMessage": MESSAGE,
    "Response": RESPONSE,
    "ResponseItem": ITEM,
    "ResponseItemPage": closed(
        LISTED
        | {
            "data": {"type": "array", "maxItems": paging.MOST, "items": ref("ResponseItem")},
            "first_id": or_null("string"),
            "last_id": or_null("string"),
            "has_more": {"type": "boolean"},
        }
    ),
    "DeletedResponse": closed(
        {"id": ID, "object": {"const": "response"}, "deleted": {"const": True}}
    ),
    "Model": MODEL,
    "ModelPage": closed(LISTED | {"data": {"type": "array", "items": ref("Model")}}),
    "Error": ERROR,
}
