"""What a supervisor asks: is the process serving, and is the whole product ready."""

from __future__ import annotations

import json

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse

from reports import dispatch


def healthz(_request: HttpRequest) -> JsonResponse:
    """200 while the process serves; it asks nobody else."""
    return JsonResponse({"status": "ok"})


def readyz(_request: HttpRequest) -> HttpResponse:
    """200 when database, broker and a worker answer, else 503; a line of JSON for each of them."""
    parts = {
        "database": "ok" if _is_database_reachable() else "cannot be reached",
        "broker": "ok" if dispatch.is_reachable() else "cannot be reached",
        "worker": "ok" if dispatch.is_worker_seen() else "not seen within the last minute",
    }
    is_ready = set(parts.values()) == {"ok"}
    lines = [json.dumps({"part": part, "status": status}) for part, status in parts.items()]
    return HttpResponse(
        "\n".join(lines) + "\n",
        status=200 if is_ready else 503,
        content_type="application/x-ndjson",
        headers={"Cache-Control": "no-store"},
    )


def _is_database_reachable() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True
