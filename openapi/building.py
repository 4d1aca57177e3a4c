"""How an operation of a table is put together: who may ask, and what may go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openapi.answers import SIGNED_IN, UNSAFE, Answers, refused
from openapi.operations import BY_TOKEN_OR_CSRF, BY_TOKEN_OR_SESSION, Operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports import errors


def operation(
    tag: str,
    name: str,
    summary: str,
    responses: Answers,
    *refusals: type[errors.Refusal],
    parameters: tuple[dict[str, Any], ...],
    is_read: bool = False,
    refuse: Callable[..., Answers] = refused,
    **rest: object,
) -> Operation:
    """One operation; `refuse` writes its refusals down in the form that its clients read."""
    usual = SIGNED_IN if is_read else UNSAFE
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "security": BY_TOKEN_OR_SESSION if is_read else BY_TOKEN_OR_CSRF,
        "parameters": [*parameters],
        "responses": {**responses, **refuse(*usual, *refusals)},
        **rest,
    }
