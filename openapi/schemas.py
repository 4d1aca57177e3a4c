"""The shapes that requests and answers have, as JSON Schema (OpenAPI 3.1)."""

from __future__ import annotations

from typing import Any, Final

from reports import errors, serializers, wishes
from reports.errors import ErrorCode, Refusal
from reports.models import COUNTED_AHEAD, Status

Schema = dict[str, Any]

JOB_ID: Final = "01a228b8-68a8-7ae5-bc7f-a66f5088f81b"
# What `str.strip` takes away, in the words of ECMA 262: a prompt needs another character.
BLANK: Final = (
    r"\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
)
# Blanks around a key do not count; a quoted string stands for what is in it (see parse_key).
KEY_PATTERN: Final = (
    r'^[ \t]*(?!" *"[ \t]*$)'
    r'(?:[!-~](?:[ -~]{0,253}[!-~])?|"(?:[ !#-\[\]-~]|\\["\\]){1,255}")[ \t]*$'
)


def ref(name: str) -> Schema:
    """A schema by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def refusals() -> list[type[Refusal]]:
    """Every refusal, in the contract's order."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return [kind for kind in kinds if issubclass(kind, Refusal) and kind is not Refusal]


def closed(properties: Schema, *, optional: frozenset[str] = frozenset()) -> Schema:
    """An object with these members, all of them always there but for the optional ones."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def or_null(kind: str, **rest: object) -> Schema:
    """A value of this kind, or null."""
    return {"type": [kind, "null"], **rest}


def _at(description: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": description}


def _ator_null(description: str) -> Schema:
    return _at(description) | {"type": ["string", "null"]}


TOKENS: Final[Schema] = {"type": "integer", "minimum": 0}
STATUS: Final[Schema] = {"type": "string", "enum": Status.values}
HTTP_STATUS: Final[Schema] = {"type": "integer", "minimum": 100, "maximum": 599}
ERROR_CODE: Final[Schema] = {"type": "string", "enum": [*ErrorCode]}

NO_NUL: Final = r"^[^\u0000]*$"
METADATA: Final[Schema] = {
    "type": "object",
    "maxProperties": wishes.MOST_PAIRS,
    "propertyNames": {"minLength": 1, "maxLength": wishes.LONGEST_NAME, "pattern": NO_NUL},
    "additionalProperties": {
        "type": "string",
        "maxLength": wishes.LONGEST_VALUE,
        "pattern": NO_NUL,
    },
}
PROMPT: Final[Schema] = {
    "type": "object",
    "required": ["prompt"],
    "properties": {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": serializers.LONGEST_PROMPT,
            "pattern": rf"^[^\u0000]*[^\u0000{BLANK}][^\u0000]*$",
            "description": "Not blank, kept exactly as sent; no NUL, no half of a surrogate pair. "
            "Counted in characters (Unicode code points).",
        },
        "metadata": METADATA
        | {
            "type": ["object", "null"],
            "description": "Labels of your own, which are given back with the job.",
        },
        "expires_in_s": or_null(
            "integer",
            minimum=1,
            maximum=wishes.longest_wait_s(),
            description="Seconds that the job is worth a wait: not begun by then, it fails as "
            "`queue_expired`.",
        ),
    },
    "description": "Other members are ignored. The whole body is at most 131072 bytes of UTF-8.",
}
ACCEPTED: Final = closed({"job_id": {"type": "string", "format": "uuid"}, "status": STATUS})
USAGE: Final = closed({"prompt_tokens": TOKENS, "completion_tokens": TOKENS})
IN_EVERY_JOB: Final = closed(
    {
        "job_id": {"type": "string", "format": "uuid"},
        "status": STATUS,
        "http_status": or_null(
            "integer", minimum=100, maximum=599, description="Null until it has ended."
        ),
        "created_at": _at("Accepted."),
        "updated_at": _at("Last change of its state."),
        "started_at": _ator_null("Claimed by a worker."),
        "finished_at": _ator_null("Ended."),
        "token_estimate": TOKENS | {"description": "What it reserved."},
        "usage": {
            "oneOf": [ref("Usage"), {"type": "null"}],
            "description": "As the provider reported it, else null.",
        },
        "metadata": METADATA | {"description": "Only where its client gave it some."},
        "expires_at": _at("Only where it has a limit of its own: not begun after."),
        "again_of": {
            "type": "string",
            "format": "uuid",
            "description": "Only where it repeats another: that job.",
        },
    },
    optional=frozenset({"metadata", "expires_at", "again_of"}),
)


def _job(*statuses: Status, has_ended: bool, **members: Schema) -> Schema:
    """A job in one of these states."""
    end = {
        "http_status": HTTP_STATUS if has_ended else {"type": "null"},
        "finished_at": _at("Ended.") if has_ended else {"type": "null"},
    }
    optional = frozenset({"is_prompt_cut"})
    own = closed({"status": {"enum": [*statuses]}, **end, **members}, optional=optional)
    return {"allOf": [ref("AnyJob"), own]}


def _by_status(**names: str) -> Schema:
    """One of several schemas, told apart by `status`."""
    mapping = {status: ref(name)["$ref"] for status, name in names.items()}
    kinds = [{"$ref": target} for target in dict.fromkeys(mapping.values())]
    return {
        "oneOf": kinds,
        "discriminator": {"propertyName": "status", "mapping": mapping},
    }


PROBLEM: Final[Schema] = {
    "type": "object",
    "description": "RFC 9457. `error` is the code that programs test.",
    "required": ["type", "title", "status", "detail", "error"],
    "properties": {
        "type": {"type": "string", "format": "uri"},
        "title": {"type": "string", "description": "The phrase of the status."},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "A sentence for people."},
        "error": {"type": "string", "enum": [kind.code for kind in refusals()]},
        "errors": {
            "type": "object",
            "description": "With `invalid_request`: what does not fit, by field.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
        "job_id": {
            "type": "string",
            "format": "uuid",
            "description": "With `idempotency_key_reused`: the job that has this key.",
        },
        "retry": {"const": "tomorrow", "description": "With `budget_exhausted`."},
        "violated-policies": {"type": "array", "items": {"const": "daily-tokens"}},
        "requested_tokens": TOKENS | {"description": "What this job would reserve."},
        "remaining_tokens": TOKENS,
        "daily_tokens": TOKENS,
        "resets_at": _at("The UTC midnight at which the count starts again."),
        "max_active_jobs": {"type": "integer", "minimum": 1},
        "max_webhooks": {"type": "integer", "minimum": 1},
    },
}
BUDGET: Final = closed(
    {
        "daily_tokens": TOKENS | {"description": "The daily allowance."},
        "spent_tokens": TOKENS | {"description": "Settled or reserved today."},
        "remaining_tokens": TOKENS,
        "day_utc": {"type": "string", "format": "date"},
        "resets_at": _at("The UTC midnight that ends this day."),
    }
)
URL_OR_NULL: Final = or_null("string", format="uri")
ALL: Final[dict[str, Schema]] = {
    "Prompt": PROMPT,
    "Accepted": ACCEPTED,
    "AnyJob": IN_EVERY_JOB,
    "Usage": USAGE,
    "QueuedJob": _job(
        Status.QUEUED,
        has_ended=False,
        jobs_ahead={
            "type": "integer",
            "minimum": 0,
            "maximum": COUNTED_AHEAD,
            "description": f"Older queued jobs, counted to {COUNTED_AHEAD}.",
        },
    ),
    "RunningJob": _job(Status.RUNNING, has_ended=False),
    "SucceededJob": _job(
        Status.SUCCEEDED,
        has_ended=True,
        text={"type": "string"},
        finish_reason=or_null("string", description="`length`: cut off by the output limit."),
        is_prompt_cut={
            "const": True,
            "description": "Only there when the model must have read a part of the prompt only.",
        },
    ),
    "FailedJob": _job(
        Status.FAILED,
        has_ended=True,
        error_code=ERROR_CODE,
        error_detail={"type": "string", "description": "A sentence for people."},
    ),
    "Job": _by_status(
        queued="QueuedJob", running="RunningJob", succeeded="SucceededJob", failed="FailedJob"
    ),
    "OpenJobSummary": _job(Status.QUEUED, Status.RUNNING, has_ended=False),
    "SucceededJobSummary": _job(Status.SUCCEEDED, has_ended=True),
    "FailedJobSummary": _job(Status.FAILED, has_ended=True, error_code=ERROR_CODE),
    "JobSummary": _by_status(
        queued="OpenJobSummary",
        running="OpenJobSummary",
        succeeded="SucceededJobSummary",
        failed="FailedJobSummary",
    ),
    "JobPage": closed(
        {
            "next": URL_OR_NULL,
            "previous": URL_OR_NULL,
            "results": {"type": "array", "maxItems": 20, "items": ref("JobSummary")},
        }
    ),
    "Budget": BUDGET,
    "Problem": PROBLEM,
}
