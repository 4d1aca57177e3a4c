"""One job in each state, and what else an answer may hold."""

from __future__ import annotations

import json
from typing import Any, Final

from openapi.schemas import JOB_ID

PROMPT: Final = {"prompt": "Why is the sky blue?"}
ACCEPTED: Final = {"job_id": JOB_ID, "status": "queued"}
REPLAYED: Final = {"job_id": JOB_ID, "status": "succeeded"}
BUDGET: Final = {
    "daily_tokens": 100000,
    "spent_tokens": 36,
    "remaining_tokens": 99964,
    "day_utc": "2026-11-29",
    "resets_at": "2026-11-30T00:00:00Z",
}
_WAITING: Final[dict[str, Any]] = {
    "job_id": JOB_ID,
    "status": "queued",
    "http_status": None,
    "created_at": "2026-11-29T19:11:43.795000Z",
    "updated_at": "2026-11-29T19:11:43.795000Z",
    "started_at": None,
    "finished_at": None,
    "token_estimate": 1029,
    "usage": None,
}
_RUNNING: Final = _WAITING | {
    "status": "running",
    "started_at": "2026-11-29T19:11:43.993000Z",
    "updated_at": "2026-11-29T19:11:43.993000Z",
}
_ENDED: Final = _RUNNING | {
    "finished_at": "2026-11-29T19:11:44.327000Z",
    "updated_at": "2026-11-29T19:11:44.327000Z",
}
_SUCCEEDED: Final = _ENDED | {
    "status": "succeeded",
    "http_status": 200,
    "usage": {"prompt_tokens": 5, "completion_tokens": 31},
}
_FAILED: Final = _ENDED | {"status": "failed", "http_status": 503, "error_code": "provider_5xx"}
CANCELLED: Final = _WAITING | {
    "status": "failed",
    "http_status": 499,
    "finished_at": "2026-11-29T19:11:44.327000Z",
    "error_code": "cancelled",
    "error_detail": "Cancelled by its owner.",
}
JOBS: Final = {
    "queued": _WAITING | {"jobs_ahead": 3},
    "running": _RUNNING,
    "succeeded": _SUCCEEDED
    | {"text": "Air scatters blue light more than red light.", "finish_reason": "stop"},
    "failed": _FAILED
    | {"error_detail": "The provider answered 503 Service Unavailable (it is overloaded)."},
}
JOB_PAGE: Final = {"next": None, "previous": None, "results": [_SUCCEEDED, _FAILED]}
EVENTS: Final = (
    f"retry: 2000\n\nid: 1795979503993000-running\nevent: status\ndata: {json.dumps(_RUNNING)}\n\n"
)
