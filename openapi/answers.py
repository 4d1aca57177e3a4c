"""How an answer is written down: its headers, its shape, and examples that are true."""

from __future__ import annotations

from collections import defaultdict
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from openapi import headers
from openapi.schemas import JOB_ID, Schema, ref
from reports import envelopes, errors
from reports.parsing import JSON, PROBLEM
from responses import refusals as openai

if TYPE_CHECKING:
    from collections.abc import Callable

    from openapi.headers import Header
    from reports.errors import Refusal

Answers = dict[str, dict[str, Any]]

# What may meet any request: a foreign host, a body out of bounds, a fault of ours, no database.
ALWAYS: Final = (
    errors.BadRequest,
    errors.MethodNotAllowed,
    errors.BodyTimeout,
    errors.TooLarge,
    errors.ServerError,
    errors.Unavailable,
)
SIGNED_IN: Final = (
    *ALWAYS,
    errors.NotAuthenticated,
    errors.NotAcceptable,
    errors.TooManyAttempts,
)
# An unsafe method of a session needs its CSRF token.
UNSAFE: Final = (*SIGNED_IN, errors.CsrfFailed, errors.PermissionDenied)
WITH_MEMBERS: Final[dict[type[Refusal], Refusal]] = {
    errors.InvalidRequest: errors.InvalidRequest(prompt="The prompt is missing."),
    errors.KeyReused: errors.KeyReused(members={"job_id": JOB_ID}),
    errors.BudgetExhausted: errors.BudgetExhausted(members={"retry": "tomorrow"}),
    errors.TooManyWebhooks: errors.TooManyWebhooks(members={"max_webhooks": 10}),
    errors.TooManyActiveJobs: errors.TooManyActiveJobs(members={"max_active_jobs": 20}),
    openai.UnsupportedParameter: openai.UnsupportedParameter("tools"),
    openai.ModelNotFound: openai.ModelNotFound("default"),
    errors.TooManyStreams: errors.TooManyStreams(members={"max_streams": 100}),
}
OF_STATUS: Final[dict[int, dict[str, Header]]] = {
    401: {"WWW-Authenticate": headers.WWW_AUTHENTICATE},
    405: {"Allow": headers.ALLOW},
    409: {"x-should-retry": headers.SHOULD_RETRY},
    422: headers.envelope(required=False),
    429: {"Retry-After": headers.RETRY_AFTER, **headers.envelope(required=False)},
    503: {"Retry-After": headers.RETRY_AFTER},
}


def empty(description: str, named: dict[str, Header] | None = None) -> dict[str, Any]:
    """An answer without a body."""
    return {"description": description, "headers": {**headers.EVERYWHERE, **(named or {})}}


def answer(
    description: str, shape: str, named: dict[str, Header], **examples: object
) -> dict[str, Any]:
    """A JSON answer of this shape; an example's name says when it is given."""
    content: dict[str, Any] = {"schema": ref(shape), "examples": _examples(examples)}
    return empty(description, named) | {"content": {JSON: content}}


def refused(*kinds: type[Refusal]) -> Answers:
    """Problem documents by status, each with the codes that it can have."""
    return _by_status(kinds, _problem)


def enveloped(*kinds: type[Refusal]) -> Answers:
    """The same below /v1, in OpenAI's envelope."""
    return _by_status(kinds, _envelope)


def _by_status(
    kinds: tuple[type[Refusal], ...],
    describe: Callable[[int, list[type[Refusal]]], dict[str, Any]],
) -> Answers:
    by_status: dict[int, list[type[Refusal]]] = defaultdict(list)
    for kind in kinds:
        by_status[kind.status].append(kind)
    return {str(status): describe(status, by_status[status]) for status in sorted(by_status)}


def _envelope(status: int, kinds: list[type[Refusal]]) -> dict[str, Any]:
    refusals = [WITH_MEMBERS.get(kind) or kind() for kind in kinds]
    documents = {refusal.code: envelopes.envelope_of(refusal) for refusal in refusals}
    codes = [document["error"]["code"] for document in documents.values()]
    told: Schema = {"properties": {"error": {"properties": {"code": {"enum": codes}}}}}
    content = {"schema": {"allOf": [ref("Error"), told]}, "examples": _examples(documents)}
    useless = [bool(envelopes.headers_of(refusal)) for refusal in refusals]
    retry = headers.SHOULD_RETRY | {"required": all(useless)}
    named = {
        "Cache-Control": headers.PRIVATE,
        **OF_STATUS.get(status, {}),
        **({"x-should-retry": retry} if any(useless) else {}),
    }
    meaning = f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}"
    return empty(meaning, named) | {"content": {JSON: content}}


def _problem(status: int, kinds: list[type[Refusal]]) -> dict[str, Any]:
    codes = [kind.code for kind in kinds]
    told: Schema = {"properties": {"status": {"const": status}, "error": {"enum": codes}}}
    documents = {kind.code: WITH_MEMBERS.get(kind, kind()).document() for kind in kinds}
    content = {
        "schema": {"allOf": [ref("Problem"), told]},
        "examples": _examples(documents),
    }
    named = {"Cache-Control": headers.PRIVATE, **OF_STATUS.get(status, {})}
    meaning = f"{HTTPStatus(status).phrase}: {', '.join(f'`{code}`' for code in codes)}"
    return empty(meaning, named) | {"content": {PROBLEM: content}}


def _examples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: {"value": value} for name, value in values.items()}
