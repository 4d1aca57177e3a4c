"""What a message says: that a job ended and how, and nothing of its texts.

A reader asks for the job itself, with its own token: an attempt may come after an erasure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from budgets.envelope import rfc3339
from reports import ids

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


def body(event: str, *, at: datetime, data: dict[str, object], **beside: object) -> str:
    """A message of Standard Webhooks 1.0: `type`, `timestamp` of the event, `data`."""
    return json.dumps({**beside, "type": event, "timestamp": rfc3339(at), "data": data})


def of_response(event: str, *, at: datetime, message_id: UUID, job_id: UUID) -> str:
    """The same of a response that ended, with what OpenAI's SDK reads in it."""
    return body(
        event,
        at=at,
        data={"id": ids.response_id(job_id)},
        id=f"evt_{message_id.hex}",
        object="event",
        created_at=int(at.timestamp()),
    )


def of_ending(
    job_id: object, *, status: str, http_status: int | None, error_code: str
) -> dict[str, object]:
    """The data of a job that ended."""
    data: dict[str, object] = {"job_id": str(job_id), "status": status, "http_status": http_status}
    return data | ({"error_code": error_code} if error_code else {})
