"""Every request: its id, its line in the log, its count and its time."""

from __future__ import annotations

import logging
import sys
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.signals import got_request_exception

from telemetry import context, lines, meters

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponseBase

# In the environ: when the whole request was there. It may wait for a thread from then on.
ARRIVED = "reports.arrived_monotonic"
REQUEST_ID = "HTTP_X_REQUEST_ID"
# Asked for every few seconds by machines that keep books of their own.
PROBES = frozenset({"healthz", "readyz", "metrics"})

logger = logging.getLogger(__name__)


class AccessMiddleware:
    """Outermost: sees the answer as it leaves."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """The answer, with the id of its request."""
        arrived = request.META.get(ARRIVED) or time.monotonic()
        request_id = context.request_id_from(request.META.get(REQUEST_ID))
        with context.at_work_for(request=request_id):
            response = self.get_response(request)
            # What does not exist is told byte for byte alike (CONTRACT 3): there the client's own
            # id comes back, and ours is in the log alone.
            if response.status_code != HTTPStatus.NOT_FOUND or REQUEST_ID in request.META:
                response.headers[context.HEADER] = request_id
            note(
                route=route_of(request),
                method=request.method or "",
                status=response.status_code,
                took_s=time.monotonic() - arrived,
            )
        return response

    def process_view(
        self, _request: HttpRequest, _view: object, _args: object, named: dict[str, Any]
    ) -> None:
        """From here on the lines of this request name the job that it is about."""
        context.job_id.set(context.uuid_in(named.get("job_id")))


def note(*, route: str, method: str, status: int, took_s: float) -> None:
    """Write and count one request. Its path is told by the route: anything may stand in it."""
    known = method if method in meters.METHODS else "other"
    meters.requests.labels(route, known, f"{status // 100}xx").observe(took_s)
    level = logging.DEBUG if route in PROBES else logging.INFO
    if logger.isEnabledFor(level):
        took_ms = round(took_s * 1000, 1)
        told = {"method": known, "route": route, "status": status, "took_ms": took_ms}
        message = "%(method)s %(route)s %(status)d in %(took_ms)g ms"
        logger.log(level, message, told, extra={"event": "request", **told})


def route_of(request: HttpRequest) -> str:
    """The name of the route, which unlike the path holds no id; `admin` for all of the admin."""
    match = request.resolver_match
    if match is None:
        return "static" if request.path.startswith(settings.STATIC_URL) else "none"
    return match.namespace or match.url_name or "unnamed"


def _log_crash(**_: object) -> None:
    logger.error("a request broke: %s", lines.described(sys.exc_info()))


got_request_exception.connect(_log_crash)
