"""A job as OpenAI's clients read it: the Response object, and the items of its input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

from reports import ids
from reports.conversation import ASSISTANT, USER, Message
from reports.errors import ErrorCode
from reports.models import Status

if TYPE_CHECKING:
    from datetime import datetime

    from reports.models import ReportJob

TOO_MANY_REQUESTS = 429
OPEN = {Status.QUEUED: "queued", Status.RUNNING: "in_progress"}
# A text that ended early: the provider's word for why, and OpenAI's.
CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response_of(job: ReportJob) -> dict[str, Any]:
    """The Response object of a job, as it is now."""
    asked = job.conversation
    status = status_of(job)
    cut = CUT[job.finish_reason] if status == "incomplete" else None
    return {
        "id": ids.response_id(job.pk),
        "object": "response",
        "created_at": unix(job.created_at),
        "completed_at": unix(job.finished_at) if status == "completed" else None,
        "status": status,
        "background": True,
        "error": _error(job) if status == "failed" else None,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": asked.instructions if asked else None,
        "max_output_tokens": asked.max_output_tokens if asked else None,
        "model": asked.model if asked else model(),
        "output": [message_of(job)] if job.status == Status.SUCCEEDED else [],
        "usage": _usage(job),
        "metadata": job.metadata,
        **SETTLED,
    }


def status_of(job: ReportJob) -> str:
    """OpenAI's word for a job's state."""
    if job.status == Status.SUCCEEDED:
        return "incomplete" if job.finish_reason in CUT else "completed"
    if job.status == Status.FAILED:
        return "cancelled" if job.error_code == ErrorCode.CANCELLED else "failed"
    return OPEN[Status(job.status)]


def message_of(job: ReportJob) -> dict[str, Any]:
    """The one item of the output."""
    is_whole = job.finish_reason not in CUT
    said = _item(f"msg_{job.pk.hex}", Message(ASSISTANT, job.result_text))
    return said | {"status": "completed" if is_whole else "incomplete"}


def items_of(job: ReportJob) -> list[dict[str, Any]]:
    """The items of its input, in the order in which they were sent."""
    asked = job.conversation
    messages = asked.messages if asked else (Message(USER, job.prompt),)
    return [_item(f"msg_{job.pk.hex}{place:04x}", said) for place, said in enumerate(messages)]


def model() -> str:
    """The name of the one model."""
    return settings.INFERENCE_MODEL or "default"


def model_object() -> dict[str, Any]:
    """The one model as a list of models shows it; nobody knows when it was made."""
    return {"id": model(), "object": "model", "created": 0, "owned_by": "inference"}


def unix(moment: datetime | None) -> int | None:
    """Whole seconds since 1970."""
    return None if moment is None else int(moment.timestamp())


# What nobody can ask for otherwise, in the words that say so.
SETTLED: dict[str, Any] = {
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}


def _item(item_id: str, said: Message) -> dict[str, Any]:
    content: dict[str, Any] = {"type": "input_text", "text": said.text}
    if said.role == ASSISTANT:
        content = {"type": "output_text", "text": said.text, "annotations": []}
    return {
        "id": item_id,
        "type": "message",
        "role": said.role,
        "status": "completed",
        "content": [content],
    }


def _error(job: ReportJob) -> dict[str, Any]:
    """Why it failed: one of the codes that the SDK knows, and ours under `type`."""
    is_busy = job.http_status == TOO_MANY_REQUESTS
    return {
        "code": "rate_limit_exceeded" if is_busy else "server_error",
        "message": job.error_detail,
        "param": None,
        "type": job.error_code,
    }


def _usage(job: ReportJob) -> dict[str, Any] | None:
    if job.prompt_tokens is None or job.completion_tokens is None:
        return None
    return {
        "input_tokens": job.prompt_tokens,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": job.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": job.prompt_tokens + job.completion_tokens,
    }
