"""What a supervisor asks: is the process serving, and is the whole product ready."""

from __future__ import annotations

import json
import threading
import time

import redis
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from reports import dispatch
from reports_project import scrape
from telemetry import relay

# Whoever asks more often gets the last answer: a silent broker must not hold up the threads.
REMEMBERED_S = 1.0

_lock = threading.Lock()
_last: tuple[float, bool, bool] = (-REMEMBERED_S, False, False)


@csrf_exempt
@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the process serves; it asks nobody else."""
    return JsonResponse({"status": "ok"})


@csrf_exempt
@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 when database, broker and a worker answer, else 503; a line of JSON for each of them."""
    is_broker_reachable, is_worker_seen = _broker_and_worker()
    parts = {
        "database": "ok" if _is_database_reachable() else "cannot be reached",
        "broker": "ok" if is_broker_reachable else "cannot be reached",
        "worker": "ok" if is_worker_seen else "not seen within the last minute",
    }
    is_ready = set(parts.values()) == {"ok"}
    lines = [json.dumps({"part": part, "status": status}) for part, status in parts.items()]
    return HttpResponse(
        "\n".join(lines) + "\n",
        status=200 if is_ready else 503,
        content_type="application/x-ndjson",
        headers={"Cache-Control": "no-store"},
    )


@csrf_exempt
@require_safe
def metrics(_request: HttpRequest) -> HttpResponse:
    """Numbers for Prometheus, of all processes and of the jobs that wait and run."""
    return HttpResponse(
        scrape.text(), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"}
    )


def _is_database_reachable() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _broker_and_worker() -> tuple[bool, bool]:
    """Whether the broker answers, and whether a worker heard its own pulse through it lately."""
    global _last  # noqa: PLW0603  # the memory of one process
    with _lock:
        if time.monotonic() - _last[0] >= REMEMBERED_S:
            try:
                _last = time.monotonic(), True, bool(relay.broker().exists(dispatch.SEEN_KEY))
            except redis.RedisError:
                _last = time.monotonic(), False, False
        return _last[1:]
