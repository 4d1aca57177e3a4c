"""The headers of requests and answers."""

from __future__ import annotations

from typing import Any, Final

from openapi.schemas import KEY_PATTERN, Schema

Header = dict[str, Any]


def _header(description: str, schema: Schema, *, required: bool = True) -> Header:
    return {"description": description, "required": required, "schema": schema}


def _text(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


REQUEST_ID: Final = _header(
    "Stands in our log beside this request. Yours, if it fits; a 404 has no other.",
    {"type": "string", "minLength": 1},
    required=False,
)
# What answers have, by the names of their components.
EVERYWHERE: Final = {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}}
COMPONENTS: Final = {"RequestId": REQUEST_ID}
POLL_AFTER: Final = _header(
    "Seconds after which to ask again; left out once the job has ended.",
    {"type": "integer", "minimum": 1},
    required=False,
)
RETRY_AFTER: Final = _header(
    "Seconds after which the same request may work.", {"type": "integer", "minimum": 1}
)
LOCATION: Final = _header("Where to poll the job.", _text(r"^/reports/[0-9a-f-]{36}$"))
RESPONSE_LOCATION: Final = _header("Where it is.", _text(r"^/v1/responses/resp_[0-9a-f]{32}$"))
HOOK_LOCATION: Final = _header("Where it is.", _text(r"^/webhooks/[0-9a-f-]{36}$"))
REPLAYED: Final = _header(
    "`true` when the key already had this job.", {"const": "true"}, required=False
)
KEY_USED: Final = _header(
    "The key of the new job: yours, or the one that was made.", _text("^[ -~]{1,255}$")
)
NOT_STORED: Final = _header("Not for any cache.", {"const": "private, no-store"})
PRIVATE: Final = _header("Not for shared caches.", {"const": "private, no-cache"})
PRIVATE_OR_NOT_STORED: Final = _header(
    "Not for shared caches, and a stream for none.",
    {"enum": ["private, no-cache", "private, no-store"]},
)
ETAG: Final = _header("Changes with the job. Strong.", _text(r'^"[0-9a-f]{32}"$'))
ETAG_OF_JSON: Final = ETAG | {"required": False}
ALLOW: Final = _header("The methods that this path knows.", {"type": "string"})
WWW_AUTHENTICATE: Final = _header("RFC 6750.", {"const": "Bearer"})
SHOULD_RETRY: Final = _header(
    "Tells stock SDKs, which would repeat a 409, that it is of no use.", {"const": "false"}
)
_POLICY: Final = _text(r'^"daily-tokens";q=[0-9]+;w=86400$')
_LEFT: Final = _text(r'^"daily-tokens";r=[0-9]+;t=[0-9]+$')


def envelope(*, required: bool = True) -> dict[str, Header]:
    """The day of tokens, as draft-ietf-httpapi-ratelimit-headers says it."""
    about = "Of the day's tokens: q the allowance, w the seconds of a day."
    left = "Of the day's tokens: r what is left, t the seconds to UTC midnight."
    return {
        "RateLimit-Policy": _header(about, _POLICY, required=required),
        "RateLimit": _header(left, _LEFT, required=required),
    }


KEY: Final[Header] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "1 to 255 printable ASCII characters, new for each report and the same for each "
    'retry of it. The quoted form `"abc"` is the same key as `abc`; blanks around it do not count.',
    "schema": _text(KEY_PATTERN),
    "example": "0f0c6d4e-5a1b-4c6f-9a43-1f9b4f3f8a52",
}
IF_NONE_MATCH: Final[Header] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "Entity tags of states that you have; 304 while one of them is the present.",
    "schema": {"type": "string"},
}
LAST_EVENT_ID: Final[Header] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The `id` of the last event that you have seen; browsers send it by themselves. "
    "One that is none of ours counts as none.",
    "schema": {"type": "string"},
}
