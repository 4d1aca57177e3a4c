"""The JSON of a job, and the validation of a key and a prompt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from budgets.envelope import rfc3339
from reports.errors import InvalidRequest, KeyInvalid, KeyMissing
from reports.models import Status
from reports.wishes import UNSTORABLE, wishes_in

if TYPE_CHECKING:
    from datetime import datetime

    from reports.models import ReportJob
    from reports.wishes import Wishes

LONGEST_KEY = 255
LONGEST_PROMPT = 8000
# A whole structured-field string (RFC 9651 section 3.3.3), as the Idempotency-Key draft asks for.
QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
ESCAPED = re.compile(r"\\(.)")
PRINTABLE = re.compile(r"[ -~]+")


def parse_key(header: str | None) -> str:
    """The key in an Idempotency-Key header. Raises KeyMissing or KeyInvalid.

    Blanks around it do not count, and a value that is one quoted string stands for its contents.
    """
    value = (header or "").strip(" \t")
    quoted = QUOTED.fullmatch(value)
    key = ESCAPED.sub(r"\1", quoted[1]) if quoted else value
    if not key.strip(" "):
        raise KeyMissing
    if not PRINTABLE.fullmatch(key):
        raise KeyInvalid("The Idempotency-Key holds a character that is not printable ASCII.")
    if len(key) > LONGEST_KEY:
        raise KeyInvalid(
            f"The Idempotency-Key has {len(key)} characters; {LONGEST_KEY} is the limit."
        )
    return key


def validate_prompt(value: object) -> str:
    """The prompt exactly as it was sent. Raises InvalidRequest that says what does not fit."""
    if not isinstance(value, str):
        raise InvalidRequest(prompt="The prompt must be a string.")
    if len(value) > LONGEST_PROMPT:
        raise InvalidRequest(
            prompt=f"The prompt has {len(value)} characters; {LONGEST_PROMPT} is the limit."
        )
    if not value.strip():
        raise InvalidRequest(prompt="The prompt is blank. Write what you want to know.")
    if UNSTORABLE.search(value):
        raise InvalidRequest(
            prompt="The prompt holds a NUL or half of a surrogate pair, which no text can."
        )
    return value


def validate_body(body: object) -> tuple[str, Wishes]:
    """The prompt in a POST's JSON, and what is asked for beside it. Raises InvalidRequest."""
    if not isinstance(body, dict):
        raise InvalidRequest(body='The body must be a JSON object: {"prompt": "..."}.')
    if "prompt" not in body:
        raise InvalidRequest(prompt="The prompt is missing.")
    return validate_prompt(body["prompt"]), wishes_in(body)


def validate_status(value: str) -> Status:
    """One of the four words. Raises InvalidRequest."""
    if value not in Status.values:
        raise InvalidRequest(status=f"The status is one of {', '.join(Status.values)}.")
    return Status(value)


def summary(job: ReportJob) -> dict[str, object]:
    """What a list says of a job: everything but its texts."""
    fields: dict[str, object] = {
        "job_id": str(job.pk),
        "status": job.status,
        "http_status": job.http_status,
        "created_at": instant(job.created_at),
        "updated_at": instant(job.updated_at),
        "started_at": instant(job.started_at),
        "finished_at": instant(job.finished_at),
        "token_estimate": job.token_estimate,
        "usage": usage(job),
    }
    if job.status == Status.FAILED:
        fields["error_code"] = job.error_code
    return fields | _wishes(job)


def _wishes(job: ReportJob) -> dict[str, object]:
    """What its client asked for beside the prompt, where it did."""
    fields: dict[str, object] = {}
    if job.metadata:
        fields["metadata"] = job.metadata
    if job.expires_at is not None:
        fields["expires_at"] = instant(job.expires_at)
    if job.again_of is not None:
        fields["again_of"] = str(job.again_of)
    return fields


def detail(job: ReportJob) -> dict[str, object]:
    """What a poll says of a job that was read with its `jobs_ahead`."""
    fields = summary(job)
    if job.status == Status.QUEUED:
        fields["jobs_ahead"] = job.jobs_ahead
    elif job.status == Status.SUCCEEDED:
        fields |= {"text": job.result_text, "finish_reason": job.finish_reason or None}
        if job.is_prompt_cut:
            fields["is_prompt_cut"] = True
    elif job.status == Status.FAILED:
        fields["error_detail"] = job.error_detail
    return fields


def usage(job: ReportJob) -> dict[str, int] | None:
    """Tokens as the provider reported them; None where it reported none."""
    if job.prompt_tokens is None or job.completion_tokens is None:
        return None
    return {"prompt_tokens": job.prompt_tokens, "completion_tokens": job.completion_tokens}


def instant(moment: datetime | None) -> str | None:
    """An instant as RFC 3339 in UTC."""
    return rfc3339(moment) if moment else None
