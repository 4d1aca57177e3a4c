"""Errors below /v1, where OpenAI's clients ask: in the envelope that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reports.errors import Refusal

ROOT = "/v1"
# Where OpenAI has a word of its own for what our code says.
CODES = {"not_authenticated": "invalid_api_key"}
OVERSPENT = frozenset({"budget_exhausted", "exceeds_daily_budget"})
TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# Stock SDKs repeat a 409 and a 429, for which only another request or another day is of use.
USELESS = frozenset({409, 422})


def is_for(path: str) -> bool:
    """Whether OpenAI's clients ask there."""
    return path == ROOT or path.startswith(f"{ROOT}/")


def envelope_of(refusal: Refusal) -> dict[str, Any]:
    """The error as they read it; members of the problem document stand beside."""
    members = dict(refusal.members)
    errors: Any = members.pop("errors", {})
    param, texts = next(iter(errors.items()), (None, [refusal.text]))
    return {
        "error": {
            "message": texts[0],
            "type": _type_of(refusal),
            "param": None if param == "body" else param,
            "code": CODES.get(refusal.code, refusal.code),
            **members,
        }
    }


def headers_of(refusal: Refusal) -> dict[str, str]:
    """The headers that such an answer has beside those of every refusal."""
    if refusal.status in USELESS or refusal.code in OVERSPENT:
        return {"x-should-retry": "false"}
    return {}


def _type_of(refusal: Refusal) -> str:
    if refusal.code in OVERSPENT:
        return "insufficient_quota"
    if refusal.status >= 500:
        return "server_error"
    return TYPES.get(refusal.status, "invalid_request_error")
