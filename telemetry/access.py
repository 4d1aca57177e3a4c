"""Every request that Django answers, counted and timed by the name of its route."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.conf import settings

from telemetry import meters

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

# In the environ: when the whole request was there. It may wait for a thread from then on.
ARRIVED = "reports.arrived_monotonic"


class AccessMiddleware:
    """Outermost: sees the answer as it leaves."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, unchanged."""
        arrived = request.META.get(ARRIVED) or time.monotonic()
        response = self.get_response(request)
        meters.observe_request(
            route=route_of(request),
            method=request.method or "",
            status=response.status_code,
            took_s=time.monotonic() - arrived,
        )
        return response


def route_of(request: HttpRequest) -> str:
    """The name of the route, which unlike the path holds no id: `report-detail`, `admin:index`."""
    if request.resolver_match is not None:
        return request.resolver_match.view_name or "unnamed"
    return "static" if request.path.startswith(settings.STATIC_URL) else "none"
