"""POST /v1/responses: what is taken as work, what is refused, and with which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from budgets.envelope import estimate_tokens
from openapi import schemas
from reports.models import ReportJob
from tests.responses.calls import RESPONSES, assert_error, create
from tests.support.expect import assert_nothing_written, body_of
from tests.support.rows import budget, give_budget
from tests.support.statements import recorded
from tests.test_openapi import checker

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
TALK = [
    {"role": "developer", "content": "no rhymes"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "why?"}]},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "because", "annotations": []}],
    },
    {"role": "user", "content": [{"type": "input_text", "text": t} for t in ("and", "that?")]},
]

TAKEN: list[dict[str, Any]] = [
    {"temperature": 1, "top_p": 1.0, "tools": [], "tool_choice": "auto", "include": []},
    {"parallel_tool_calls": True, "truncation": "disabled", "store": True, "stream": False},
    {"text": {"format": {"type": "text"}}, "service_tier": "auto", "user": "somebody"},
    {"reasoning": {"effort": None}, "prompt_cache_key": "k", "safety_identifier": "s"},
    {"temperature": None, "tools": None, "model": None, "something_new": None},
    {"model": "default", "instructions": None, "max_output_tokens": None, "metadata": None},
    {"expires_in_s": 60},
]
NOT_HAD: list[tuple[str, object]] = [
    *(("temperature", 0), ("temperature", True), ("top_p", 0.5), ("top_logprobs", 2)),
    *(("tools", [{"type": "web_search"}]), ("tool_choice", "required")),
    *(("truncation", "auto"), ("include", ["message.output_text.logprobs"])),
    *(("previous_response_id", "resp_1"), ("conversation", "conv_1"), ("prompt", {"id": "p"})),
    *(("reasoning", {"effort": "high"}), ("text", {"format": {"type": "json_object"}})),
    *(("service_tier", "flex"), ("user", 7), ("frobnicate", 1), ("parallel_tool_calls", 1)),
    *(("background", False), ("background", ...), ("background", None)),
    *(("stream", True), ("store", False)),
]


@pytest.fixture(autouse=True)
def a_provider_with_a_limit(settings: Settings):
    settings.INFERENCE_PROTOCOL = "openai"
    settings.INFERENCE_MAX_OUTPUT_TOKENS = 1000


def test_a_text_is_taken_as_the_one_message_of_a_job(ada: Api):
    response = create(ada, metadata={"a": "b"}, instructions="be kind", max_output_tokens=16)

    job = ReportJob.objects.get()
    told = body_of(response)
    assert response.status_code == 200
    assert told["id"] == f"resp_{job.pk.hex}"
    assert (told["status"], told["model"], told["output"]) == ("queued", "default", [])
    assert told["metadata"] == {"a": "b"}
    assert job.prompt == "why?"
    assert job.openai_request == {
        "input": [{"role": "user", "text": "why?"}],
        "instructions": "be kind",
        "max_output_tokens": 16,
        "model": "default",
        "characters": len("be kind\n\nwhy?"),
    }


def test_the_headers_say_where_it_is_when_to_ask_and_by_which_key(ada: Api):
    response = create(ada)

    job = ReportJob.objects.get()
    assert response.headers["Location"] == f"{RESPONSES}/resp_{job.pk.hex}"
    assert response.headers["Retry-After"] == "1"
    assert response.headers["Idempotency-Key"] == "key-1"
    assert response.headers["RateLimit"].startswith('"daily-tokens";r=')
    assert "Idempotent-Replayed" not in response.headers


def test_messages_are_kept_in_their_order_and_the_page_shows_what_the_user_said(ada: Api):
    response = create(ada, input=TALK)

    assert response.status_code == 200
    job = ReportJob.objects.get()
    assert job.prompt == "why?\n\nand\nthat?"
    assert job.conversation is not None
    assert [(said.role, said.text) for said in job.conversation.messages] == [
        ("developer", "no rhymes"),
        ("user", "why?"),
        ("assistant", "because"),
        ("user", "and\nthat?"),
    ]


@pytest.mark.parametrize(("wished", "limit"), [(None, 1000), (16, 16), (1000, 1000)])
def test_it_reserves_all_of_its_texts_and_its_own_limit(ada: Api, wished: int | None, limit: int):
    give_budget(ada.user)

    create(ada, input="w" * 400, instructions="i" * 400, max_output_tokens=wished)

    expected = estimate_tokens("i" * 400 + "\n\n" + "w" * 400) + limit
    assert ReportJob.objects.get().token_estimate == expected
    assert budget(ada.user)["spent_tokens"] == expected


def test_without_a_key_one_is_made_for_each_request(ada: Api):
    first, second = create(ada, key=None), create(ada, key=None)

    keys = [response.headers["Idempotency-Key"] for response in (first, second)]
    assert sorted(keys) == sorted(ReportJob.objects.values_list("idempotency_key", flat=True))
    assert len(set(keys)) == 2


def test_a_replay_is_the_same_response_and_says_so(ada: Api):
    first = create(ada, input=TALK)

    again = create(ada, input=TALK, metadata={"another": "label"})

    assert body_of(again) == body_of(first)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert ReportJob.objects.count() == 1


def test_a_replay_survives_another_name_of_the_model(ada: Api, settings: Settings):
    create(ada)
    settings.INFERENCE_MODEL = "another"

    assert create(ada).headers["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("is_erased", [False, True])
@pytest.mark.parametrize(
    "other",
    [
        {"input": "why not?"},
        {"instructions": "be rude"},
        {"instructions": ""},
        {"max_output_tokens": 17},
        {"input": [{"role": "developer", "content": "x"}, {"role": "user", "content": "why?"}]},
    ],
)
def test_another_request_under_the_same_key_is_refused(
    ada: Api, other: dict[str, Any], is_erased: bool
):
    told = body_of(create(ada))
    if is_erased:
        ada.request("POST", f"{RESPONSES}/{told['id']}/cancel")
        ada.request("DELETE", f"{RESPONSES}/{told['id']}")

    with assert_nothing_written():
        response = create(ada, **other)

    error = assert_error(response, 422, "idempotency_key_reused")
    assert error["job_id"] == str(ReportJob.objects.get().pk)
    assert response.headers["x-should-retry"] == "false"


def test_a_key_of_a_report_is_no_key_of_a_response_and_the_other_way_round(ada: Api):
    ada.post("why?", key="key-1")
    create(ada, key="key-2")

    assert_error(create(ada, key="key-1"), 422, "idempotency_key_reused")
    assert ada.post("why?", key="key-2").status_code == 422


def test_no_prompt_passes_for_a_conversation_under_the_same_key(ada: Api):
    create(ada)
    told = ReportJob.objects.get().identity

    assert ada.post(told.removeprefix("\0")).status_code == 422


def test_the_same_request_as_one_that_was_deleted_says_so(ada: Api):
    told = body_of(create(ada))
    ada.request("POST", f"{RESPONSES}/{told['id']}/cancel")
    ada.request("DELETE", f"{RESPONSES}/{told['id']}")

    assert_error(create(ada), 410, "erased")


@pytest.mark.parametrize("members", TAKEN)
def test_what_asks_for_nothing_else_is_taken(ada: Api, members: dict[str, Any]):
    assert create(ada, **members).status_code == 200


@pytest.mark.parametrize(("name", "value"), NOT_HAD)
def test_what_cannot_be_had_is_refused_by_its_name(ada: Api, name: str, value: object):
    with assert_nothing_written():
        members: dict[str, Any] = {name: value}
        response = create(ada, **members)

    error = assert_error(response, 400, "unsupported_parameter", name)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("name", ["\ud800", "\x00", "n" * 65, "a\nb"])
def test_a_name_that_cannot_be_told_is_not(ada: Api, name: str):
    members: dict[str, Any] = {name: 1}
    assert_error(create(ada, **members), 400, "unsupported_parameter")


@pytest.mark.parametrize("members", TAKEN)
def test_the_document_knows_what_is_taken(members: dict[str, Any]):
    body = {"input": "why?", "background": True, **members}

    checker(schemas.ref("NewResponse")).validate(body)


@pytest.mark.parametrize(("name", "value"), NOT_HAD)
def test_the_document_knows_what_is_refused(name: str, value: object):
    body = {"input": "why?", "background": True, name: value}
    sent = {name: value for name, value in body.items() if value is not ...}

    assert not checker(schemas.ref("NewResponse")).is_valid(sent)


def test_who_wants_to_wait_is_told_what_to_do_instead(ada: Api):
    waits = assert_error(create(ada, background=False), 400, "unsupported_parameter", "background")
    streams = assert_error(create(ada, stream=True), 400, "unsupported_parameter", "stream")

    assert "background=True" in waits["message"]
    assert "?stream=true" in streams["message"]


def test_another_model_is_not_found_and_the_one_is_named(ada: Api, settings: Settings):
    settings.INFERENCE_MODEL = "small"

    error = assert_error(create(ada, model="gpt-6-astra"), 404, "model_not_found", "model")

    assert "small" in error["message"]
    assert body_of(create(ada, model="small"))["model"] == "small"


@pytest.mark.parametrize(
    ("members", "param"),
    [
        *(({"input": ...}, "input"), ({"input": ""}, "input"), ({"input": " \n"}, "input")),
        *(({"input": 7}, "input"), ({"input": []}, "input"), ({"input": {}}, "input")),
        ({"input": [{"role": "system", "content": "only this"}]}, "input"),
        ({"input": ["why?"]}, "input[0]"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": ["user"], "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": []}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": ["x"]}]}, "input[0].content[0]"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": 1}]}]},
            "input[0].content[0].text",
        ),
        *(({"instructions": 7}, "instructions"), ({"model": 7}, "model")),
        *(({"background": "true"}, "background"), ({"stream": 1}, "stream")),
        *(({"max_output_tokens": value}, "max_output_tokens") for value in (0, -1, 1.5, "9", True)),
        ({"max_output_tokens": 1001}, "max_output_tokens"),
        *(({"metadata": []}, "metadata"), ({"expires_in_s": 0}, "expires_in_s")),
        *(({"input": "a\x00"}, "input"), ({"input": "\ud800"}, "input")),
        ({"instructions": "\x00"}, "input"),
        ({"input": "a" * 8001}, "input"),
        ({"input": "a" * 7999, "instructions": "i"}, "input"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(ada: Api, members: dict[str, Any], param: str):
    with assert_nothing_written():
        response = create(ada, **members)

    assert_error(response, 400, "invalid_request", param)


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "o"}, "input[0].type"),
        ({"type": "reasoning", "id": "r", "summary": []}, "input[0].type"),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "https://x"}]},
            "input[0].content[0].type",
        ),
    ],
)
def test_images_files_and_tools_are_refused(ada: Api, item: dict[str, Any], param: str):
    with assert_nothing_written():
        response = create(ada, input=[item])

    assert_error(response, 400, "unsupported_parameter", param)


def test_as_many_characters_as_a_prompt_may_have_are_taken(ada: Api):
    assert create(ada, input="a" * 7990, instructions="i" * 8).status_code == 200


def test_a_limit_where_the_model_takes_none_is_refused(ada: Api, settings: Settings):
    settings.INFERENCE_PROTOCOL = "prompt"

    error = assert_error(
        create(ada, max_output_tokens=16), 400, "unsupported_parameter", "max_output_tokens"
    )

    assert "no limit" in error["message"]


def test_a_limit_is_the_request_s_own_where_the_service_sends_none(ada: Api, settings: Settings):
    settings.INFERENCE_MAX_OUTPUT_TOKENS = 0

    create(ada, max_output_tokens=5000)

    assert ReportJob.objects.get().token_estimate == 5001


def test_a_limit_that_is_too_large_is_told_the_largest(ada: Api):
    error = assert_error(
        create(ada, max_output_tokens=1001), 400, "invalid_request", "max_output_tokens"
    )

    assert "1000" in error["message"]


@pytest.mark.django_db(transaction=True)
def test_it_costs_one_statement_more_than_a_report(ada: Api):
    give_budget(ada.user)
    with recorded() as report:
        ada.post("why?", key="key-2")

    with recorded() as statements:
        response = create(ada)

    assert response.status_code == 200
    assert statements == [*report, "SELECT reports_reportjob"]
