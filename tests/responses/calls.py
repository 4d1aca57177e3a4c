"""How the tests call /v1, and what an error looks like there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reports import ids
from tests.support.expect import body_of

if TYPE_CHECKING:
    from django.http import HttpResponse

    from reports.models import ReportJob
    from tests.support.clients import Api
    from tests.support.expect import Answer

RESPONSES = "/v1/responses"


def create(api: Api, *, key: str | None = "key-1", **members: object) -> HttpResponse:
    """POST /v1/responses in the background, with these members; `...` leaves one out."""
    body = {"input": "why?", "background": True, **members}
    sent = {name: value for name, value in body.items() if value is not ...}
    return api.post_raw(json.dumps(sent).encode(), key=key, path=RESPONSES)


def path_of(job: ReportJob, below: str = "") -> str:
    """Where the response of a job is."""
    return f"{RESPONSES}/{ids.response_id(job.pk)}{below}"


def assert_error(answer: Answer, status: int, code: str, param: str | None = None) -> Any:
    """The answer is this error in OpenAI's envelope, whole; returns all of the error."""
    body = body_of(answer)

    assert answer.status_code == status, body
    assert answer.headers["Content-Type"] == "application/json"
    assert body.keys() == {"error"}
    error = body["error"]
    assert {"message", "type", "param", "code"} <= error.keys()
    assert (error["code"], error["param"]) == (code, param)
    assert error["message"].endswith("."), error
    return error
