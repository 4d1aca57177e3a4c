"""What a browser is told with every answer: run and load files of our own, show us in no frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

# A text that slipped through as HTML would run nothing, load nothing and send nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def headers(*, is_secure: bool) -> dict[str, str]:
    """The headers of every answer; the one about https belongs to https only (RFC 6797 7.2)."""
    seconds = settings.SECURE_HSTS_SECONDS
    if not (is_secure and seconds):
        return HEADERS
    return {
        **HEADERS,
        "Strict-Transport-Security": f"max-age={seconds}; includeSubDomains; preload",
    }


class PolicyMiddleware:
    """Outermost, so that error pages and problems carry them too. A view may send its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer with the headers."""
        response = self.get_response(request)
        for name, text in headers(is_secure=request.is_secure()).items():
            response.headers.setdefault(name, text)
        return response
