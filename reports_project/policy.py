"""What a browser may load and run on our pages: files of our own, and nothing inline."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

NAME = "Content-Security-Policy"
# A text that slipped through as HTML would run nothing, load nothing and send nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class ContentSecurityPolicyMiddleware:
    """Outermost, so that error pages carry the policy too. A view may send one of its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer with the policy."""
        response = self.get_response(request)
        response.headers.setdefault(NAME, POLICY)
        return response
