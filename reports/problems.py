"""The one place where what went wrong becomes an answer: application/problem+json (RFC 9457).

Below /v1 it is OpenAI's envelope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import (
    PermissionDenied as DjangoPermissionDenied,
    RequestDataTooBig,
    SuspiciousOperation,
)
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.template.response import SimpleTemplateResponse
from rest_framework import exceptions
from rest_framework.response import Response

from reports import envelopes, errors
from reports.errors import Refusal
from reports.logs import log_without_values
from reports.parsing import JSON, PROBLEM

if TYPE_CHECKING:
    from collections.abc import Callable

    from rest_framework.request import Request

DATABASE_RETRY_S = 2
API_ROOTS = frozenset(
    {"reports", "webhooks", "v1", "budget", "schema", "healthz", "readyz", "metrics"}
)
BY_EXCEPTION: tuple[tuple[type[Exception], type[Refusal]], ...] = (
    (exceptions.NotAuthenticated, errors.NotAuthenticated),
    (exceptions.AuthenticationFailed, errors.NotAuthenticated),
    (exceptions.PermissionDenied, errors.PermissionDenied),
    (DjangoPermissionDenied, errors.PermissionDenied),
    (exceptions.NotFound, errors.NotFound),
    (Http404, errors.NotFound),
    (exceptions.MethodNotAllowed, errors.MethodNotAllowed),
    (exceptions.NotAcceptable, errors.NotAcceptable),
    (exceptions.UnsupportedMediaType, errors.UnsupportedMediaType),
    (RequestDataTooBig, errors.TooLarge),
    (SuspiciousOperation, errors.BadRequest),
    (OperationalError, errors.Unavailable),
    (InterfaceError, errors.Unavailable),
)
BY_STATUS: dict[int, type[Refusal]] = {
    400: errors.BadRequest,
    403: errors.PermissionDenied,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    413: errors.TooLarge,
    503: errors.Unavailable,
}


class NotLetIn(exceptions.APIException):
    """A refusal while DRF finds out who is asking: only after one of its own it stops asking."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.text, refusal.code)


def refusal_of(error: Exception) -> Refusal:
    """What an exception means to the client; one that nobody foresaw is logged as our fault."""
    if isinstance(error, NotLetIn):
        return error.refusal
    if isinstance(error, Refusal):
        return error
    for kind, refusal in BY_EXCEPTION:
        if isinstance(error, kind):
            return refusal()
    log_without_values(error, "a request broke")
    return errors.ServerError()


def document_of(refusal: Refusal, path: str) -> tuple[dict[str, Any], str, dict[str, str]]:
    """What is answered at a path: the document, its media type, and its headers."""
    if envelopes.is_for(path):
        headers = headers_of(refusal) | envelopes.headers_of(refusal)
        return envelopes.envelope_of(refusal), JSON, headers
    return refusal.document(), PROBLEM, headers_of(refusal)


def headers_of(refusal: Refusal) -> dict[str, str]:
    """The headers that belong to a status."""
    headers = {"Cache-Control": "private, no-cache", **refusal.headers}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    elif refusal.status == 409:
        headers["x-should-retry"] = "false"  # stock SDKs would retry a 409
    elif refusal.status == 503:
        headers["Retry-After"] = str(DATABASE_RETRY_S)
    return headers


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler."""
    refusal = refusal_of(error)
    request: Request = context["request"]
    renderer = getattr(request, "accepted_renderer", None)
    is_json = renderer is None or renderer.media_type == JSON
    document, media_type, headers = document_of(refusal, request.path_info)
    return Response(
        document,
        status=refusal.status,
        headers=headers,
        content_type=media_type if is_json else None,
    )


class ApiErrorsMiddleware:
    """Outermost: an error that Django answers before or without a view is a problem too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, with an HTML error page replaced where a program is asking."""
        response = self.get_response(request)
        is_error = response.status_code >= 400 and _is_page(response)
        if is_error and _is_program(request):
            refusal = BY_STATUS.get(response.status_code, errors.ServerError)()
            if "Allow" in response.headers:  # which belongs to every 405 (RFC 9110 section 15.5.6)
                refusal.headers["Allow"] = response.headers["Allow"]
            return answer(refusal, request.path_info)
        return response


def _is_page(response: HttpResponseBase) -> bool:
    # What a view of ours has rendered (a form with its complaint, a browsable page) is its answer.
    is_rendered = isinstance(response, SimpleTemplateResponse)
    return response.headers.get("Content-Type", "").startswith("text/html") and not is_rendered


def _is_program(request: HttpRequest) -> bool:
    root = request.path_info.strip("/").partition("/")[0]
    return root in API_ROOTS or "text/html" not in request.headers.get("Accept", "")


def answer(refusal: Refusal, path: str = "") -> JsonResponse:
    """The document, for what is not a view of DRF's."""
    document, media_type, headers = document_of(refusal, path)
    return JsonResponse(document, status=refusal.status, headers=headers, content_type=media_type)
