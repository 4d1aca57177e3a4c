"""A job as OpenAI's clients read it, measured with the SDK's own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from openai.types.responses import Response
from openai.types.responses.response_item_list import ResponseItemList

from openapi import schemas
from openapi.document import document
from reports import ids
from reports.conversation import Conversation, Message
from responses import objects
from tests.support.rows import job_in
from tests.test_openapi import checker

if TYPE_CHECKING:
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
ASKED = Conversation(
    messages=(
        Message("developer", "no rhymes"),
        Message("user", "why?"),
        Message("assistant", "because"),
        Message("user", "and why that?"),
    ),
    instructions="be kind",
    max_output_tokens=64,
    model="small",
)
DONE: dict[str, Any] = {"result_text": "a text", "finish_reason": "stop"}
COUNTED: dict[str, Any] = {"prompt_tokens": 5, "completion_tokens": 7}
FAILED: dict[str, Any] = {
    "error_code": "provider_5xx",
    "http_status": 503,
    "error_detail": "It is overloaded.",
}


@pytest.mark.parametrize(
    ("status", "columns", "expected"),
    [
        ("queued", {}, "queued"),
        ("running", {}, "in_progress"),
        ("succeeded", DONE | COUNTED, "completed"),
        ("succeeded", DONE | {"finish_reason": "length"}, "incomplete"),
        ("succeeded", DONE | {"finish_reason": "content_filter"}, "incomplete"),
        ("succeeded", DONE | {"finish_reason": ""}, "completed"),
        ("failed", FAILED, "failed"),
        ("failed", FAILED | {"http_status": 429}, "failed"),
        ("failed", {"error_code": "cancelled", "http_status": 499}, "cancelled"),
    ],
)
@pytest.mark.parametrize("asked", [None, ASKED])
def test_a_job_in_any_state_is_a_response_to_the_sdk(
    ada: Api, status: str, columns: dict[str, Any], expected: str, asked: Conversation | None
):
    kept = asked.kept() if asked else None
    metadata = {"a": "b"}
    job = job_in(status, user=ada.user, openai_request=kept, metadata=metadata, **columns)

    told = objects.response_of(job)

    known = document()["components"]["schemas"]["Response"]
    checker(schemas.ref("Response")).validate(told)
    assert told.keys() == known["properties"].keys()
    response = Response.model_validate(told, strict=True)
    assert unknown_in(response) == {"store"}
    assert response.status == expected
    assert response.id == f"resp_{job.pk.hex}"
    assert response.output_text == (job.result_text if status == "succeeded" else "")
    assert response.created_at == int(job.created_at.timestamp())
    assert response.metadata == metadata
    assert response.model == ("small" if asked else "default")
    assert response.instructions == ("be kind" if asked else None)


def test_what_was_cut_short_says_by_what(ada: Api):
    cut = {name: DONE | {"finish_reason": name} for name in ("length", "content_filter")}

    jobs = [job_in("succeeded", user=ada.user, **columns) for columns in cut.values()]

    told = [objects.response_of(job) for job in jobs]
    reasons = [response["incomplete_details"]["reason"] for response in told]
    assert reasons == ["max_output_tokens", "content_filter"]
    assert {response["output"][0]["status"] for response in told} == {"incomplete"}


def test_a_failure_has_a_code_that_the_sdk_knows_and_ours(ada: Api):
    job = job_in("failed", user=ada.user, **FAILED)
    busy = job_in("failed", user=ada.user, **FAILED | {"http_status": 429})

    error = objects.response_of(job)["error"]

    assert error["code"] == "server_error"
    assert error["type"] == "provider_5xx"
    assert error["message"] == "It is overloaded."
    assert objects.response_of(busy)["error"]["code"] == "rate_limit_exceeded"


def test_tokens_are_told_where_the_provider_told_them(ada: Api):
    counted = objects.response_of(job_in("succeeded", user=ada.user, **DONE, **COUNTED))
    untold: dict[str, Any] = dict.fromkeys(COUNTED)
    uncounted = objects.response_of(job_in("succeeded", user=ada.user, **DONE, **untold))

    usage = Response.model_validate(counted, strict=True).usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (5, 7, 12)
    assert uncounted["usage"] is None


@pytest.mark.parametrize("asked", [None, ASKED])
def test_the_items_of_an_input_are_items_to_the_sdk(ada: Api, asked: Conversation | None):
    kept = asked.kept() if asked else None
    job = job_in("queued", user=ada.user, prompt="why?", openai_request=kept)

    items = objects.items_of(job)

    ends = {"first_id": items[0]["id"], "last_id": items[-1]["id"], "has_more": False}
    listed = ResponseItemList.model_validate({"object": "list", "data": items, **ends}, strict=True)
    said = [(item["role"], item["content"][0]["text"]) for item in items]
    expected = asked.messages if asked else (Message("user", "why?"),)
    assert said == [(message.role, message.text) for message in expected]
    assert unknown_in(listed) == set()
    assert len({item["id"] for item in items}) == len(items)


@pytest.mark.parametrize(
    "some_id",
    ["", "resp_", "resp_xyz", f"resp_{'A' * 32}", f"resp_{'0' * 33}", f"{'0' * 32}", "resp_0\n"],
)
def test_an_id_is_read_as_it_is_written_and_in_no_other_way(some_id: str):
    job_id = ids.uuid7()

    assert ids.job_of_response(ids.response_id(job_id)) == job_id
    assert ids.job_of_response(some_id) is None


def unknown_in(value: object) -> set[str]:
    """Members that the SDK's types do not know, however deep."""
    if isinstance(value, list):
        return set().union(*(unknown_in(item) for item in value))
    if not isinstance(value, openai.BaseModel):
        return set()
    inner = [unknown_in(getattr(value, name)) for name in type(value).model_fields]
    return set(value.model_extra or {}).union(*inner)
