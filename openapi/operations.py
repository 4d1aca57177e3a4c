"""What each operation takes and answers, by view and method: a table beside the views."""

from __future__ import annotations

from typing import Any, Final

from openapi import examples, headers
from openapi.answers import SIGNED_IN, UNSAFE, answer, empty, refused
from openapi.schemas import JOB_ID, STATUS, ref
from reports import api as reports, errors
from reports.parsing import JSON

Operation = dict[str, Any]

BY_TOKEN_OR_SESSION: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"session": []}]
# The session's cookie and the CSRF token together.
BY_TOKEN_OR_CSRF: Final[list[dict[str, list[str]]]] = [{"bearer": []}, {"session": [], "csrf": []}]
SECURITY_SCHEMES: Final = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token from the tokens page, or of `manage.py issue_token`.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "sessionid",
        "description": "The session of somebody who has signed in on the page.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRFToken",
        "description": "What the `csrftoken` cookie holds; beside a session only.",
    },
}
CURSOR: Final = {
    "name": "cursor",
    "in": "query",
    "description": "A place in the list: follow `next` and `previous` rather than write one.",
    "schema": {"type": "string", "pattern": f"^{reports.CURSOR.pattern}$"},
}


def _created(name: str, description: str) -> dict[str, Any]:
    instant = {"type": "string", "format": "date-time"}
    day = {"type": "string", "format": "date"}
    schema = {"anyOf": [instant, day]}
    return {"name": name, "in": "query", "description": description, "schema": schema}


CREATED: Final = [
    _created("created_after", "Only jobs accepted at this instant or later; a date: its midnight."),
    _created("created_before", "Only jobs accepted before this instant (UTC where it is a date)."),
]
STATUS_FILTER: Final = {
    "name": "status",
    "in": "query",
    "description": "Only jobs in this state.",
    "schema": STATUS,
}
JOB: Final = {
    "name": "job_id",
    "in": "path",
    "required": True,
    "description": "A malformed id, an unknown one and somebody else's job are the same 404.",
    "schema": {"type": "string", "format": "uuid"},
    "example": JOB_ID,
}


def _link(operation: str, description: str) -> dict[str, Any]:
    return {
        "operationId": operation,
        "description": description,
        "parameters": {"job_id": "$response.body#/job_id"},
    }


SUBMIT: Final[Operation] = {
    "operationId": "submitReport",
    "tags": ["reports"],
    "summary": "Accept a prompt as work",
    "description": "Answers with the job's id at once; poll the job until it has ended. The same "
    "key with the same prompt always answers 202 with the same job, whatever became of it; the "
    "same key with another prompt is 422. A refused request leaves nothing behind.",
    "security": BY_TOKEN_OR_CSRF,
    "parameters": [headers.KEY],
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": ref("Prompt"), "example": examples.PROMPT}},
    },
    "responses": {
        "202": answer(
            "Accepted, or a replay.",
            "Accepted",
            {
                "Location": headers.LOCATION,
                "Retry-After": headers.RETRY_AFTER,
                "Idempotent-Replayed": headers.REPLAYED,
                **headers.envelope(),
            },
            accepted=examples.ACCEPTED,
            replayed=examples.REPLAYED,
        )
        | {
            "links": {
                "poll": _link("getReport", "The job as it is now."),
                "cancel": _link("cancelReport", "End it early."),
                "again": _link("repeatReport", "Ask the same again once it has ended."),
                "erase": _link("eraseReport", "Erase its texts once it has ended."),
            }
        },
        **refused(
            *UNSAFE,
            errors.KeyMissing,
            errors.KeyInvalid,
            errors.InvalidRequest,
            errors.NotFound,
            errors.UnsupportedMediaType,
            errors.KeyReused,
            errors.ExceedsDailyBudget,
            errors.BudgetExhausted,
            errors.TooManyActiveJobs,
        ),
    },
}
LIST: Final[Operation] = {
    "operationId": "listReports",
    "tags": ["reports"],
    "summary": "Your jobs, newest first, without their texts",
    "security": BY_TOKEN_OR_SESSION,
    "parameters": [STATUS_FILTER, *CREATED, CURSOR],
    "responses": {
        "200": answer(
            "At most 20 jobs.",
            "JobPage",
            {"Cache-Control": headers.PRIVATE},
            last=examples.JOB_PAGE,
        ),
        **refused(*SIGNED_IN, errors.InvalidRequest),
    },
}
READ: Final[Operation] = {
    "operationId": "getReport",
    "tags": ["reports"],
    "summary": "One job as it is now",
    "description": "Ask again after `Retry-After` seconds, with `If-None-Match`, until `status` is "
    "`succeeded` or `failed`.",
    "security": BY_TOKEN_OR_SESSION,
    "parameters": [JOB, headers.IF_NONE_MATCH],
    "responses": {
        "200": answer(
            "The job.",
            "Job",
            {
                "ETag": headers.ETAG,
                "Retry-After": headers.POLL_AFTER,
                "Cache-Control": headers.PRIVATE,
            },
            **examples.JOBS,
        ),
        "304": empty(
            "It is as you have it.",
            {
                "ETag": headers.ETAG,
                "Retry-After": headers.POLL_AFTER,
                "Cache-Control": headers.PRIVATE,
            },
        ),
        **refused(*SIGNED_IN, errors.NotFound, errors.Erased),
    },
}
ERASE: Final[Operation] = {
    "operationId": "eraseReport",
    "tags": ["reports"],
    "summary": "Erase the prompt and the text for good",
    "description": "The job's row and its key stay. Doing it again changes nothing.",
    "security": BY_TOKEN_OR_CSRF,
    "parameters": [JOB],
    "responses": {
        "204": empty("Erased."),
        **refused(*UNSAFE, errors.NotFound, errors.JobActive),
    },
}
CANCEL: Final[Operation] = {
    "operationId": "cancelReport",
    "tags": ["reports"],
    "summary": "End a job early",
    "description": "Free while it waits; once the model was called, what it reserved is kept. "
    "Doing it again changes nothing.",
    "security": BY_TOKEN_OR_CSRF,
    "parameters": [JOB],
    "responses": {
        "200": answer(
            "The job, cancelled.",
            "FailedJob",
            {"Cache-Control": headers.PRIVATE},
            cancelled=examples.CANCELLED,
        ),
        **refused(*UNSAFE, errors.NotFound, errors.JobFinished),
    },
}
AGAIN: Final[Operation] = {
    "operationId": "repeatReport",
    "tags": ["reports"],
    "summary": "Ask the same again",
    "description": "Accepts the prompt, metadata and queue limit of an ended job as a new job, "
    "whose `again_of` names the old one. With an `Idempotency-Key` it can be repeated safely; "
    "without one the server makes a key. No body is read.",
    "security": BY_TOKEN_OR_CSRF,
    "parameters": [JOB, headers.KEY | {"required": False}],
    "responses": {
        "202": answer(
            "Accepted, or a replay.",
            "Accepted",
            {
                "Location": headers.LOCATION,
                "Retry-After": headers.RETRY_AFTER,
                "Idempotency-Key": headers.KEY_USED,
                "Idempotent-Replayed": headers.REPLAYED,
                **headers.envelope(),
            },
            accepted=examples.ACCEPTED,
            replayed=examples.REPLAYED,
        ),
        **refused(
            *UNSAFE,
            errors.KeyMissing,
            errors.KeyInvalid,
            errors.NotFound,
            errors.JobActive,
            errors.Erased,
            errors.KeyReused,
            errors.ExceedsDailyBudget,
            errors.BudgetExhausted,
            errors.TooManyActiveJobs,
        ),
    },
}
LISTEN: Final[Operation] = {
    "operationId": "listenToReport",
    "tags": ["reports"],
    "summary": "What becomes of a job, as it happens",
    "description": "Server-sent events until the job has ended. `status` events hold the JSON of "
    "`getReport`: the present state first, then each change. `text` events hold what is new of a "
    "text that is being written, and its offset in code points. Come back with `Last-Event-ID` "
    "after a connection that was lost; 204 says that there is no more to come.",
    "security": BY_TOKEN_OR_SESSION,
    "parameters": [JOB, headers.LAST_EVENT_ID],
    "responses": {
        "200": empty("Events.", {"Cache-Control": headers.NOT_STORED})
        | {
            # Without a schema: OpenAPI 3.1 has none for what comes in pieces.
            "content": {"text/event-stream": {"example": examples.EVENTS}}
        },
        "204": empty("You have seen its end.", {"Cache-Control": headers.NOT_STORED}),
        **refused(*SIGNED_IN, errors.NotFound, errors.Erased, errors.TooManyStreams),
    },
}
BUDGET: Final[Operation] = {
    "operationId": "getBudget",
    "tags": ["budget"],
    "summary": "Your day of tokens",
    "security": BY_TOKEN_OR_SESSION,
    "responses": {
        "200": answer(
            "Today, whatever happened on other days.",
            "Budget",
            {"Cache-Control": headers.PRIVATE, **headers.envelope()},
            today=examples.BUDGET,
        ),
        **refused(*SIGNED_IN),
    },
}
BY_VIEW: Final[dict[tuple[str, str], Operation]] = {
    ("ReportListView", "POST"): SUBMIT,
    ("ReportListView", "GET"): LIST,
    ("ReportView", "GET"): READ,
    ("ReportView", "DELETE"): ERASE,
    ("CancelView", "POST"): CANCEL,
    ("AgainView", "POST"): AGAIN,
    ("EventsView", "GET"): LISTEN,
    ("BudgetView", "GET"): BUDGET,
}
