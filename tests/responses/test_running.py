"""A response from its POST to its end, in the test's own process, and what is kept of it after."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.envelope import estimate_tokens
from reports import invariants, persons, retention, runner
from reports.models import ReportJob
from tests.responses.calls import create, path_of
from tests.responses.test_asking import TALK
from tests.responses.test_objects import ASKED, DONE
from tests.support.expect import body_of
from tests.support.provider import Answer
from tests.support.rows import budget, job_in, row

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)
CANARIES = ("zebra-instruction", "zebra-system", "zebra-question", "zebra-answer")


@pytest.fixture
def chat(provider: Provider, settings: Settings) -> Provider:
    """The stand-in, asked as chat servers are."""
    settings.INFERENCE_PROTOCOL = "openai"
    settings.INFERENCE_MAX_OUTPUT_TOKENS = 1000
    settings.INFERENCE_SYSTEM_PROMPT = "be kind"
    runner.config.cache_clear()
    return provider


def said(text: str, **rest: Any) -> Answer:
    """An answer of a chat server."""
    choice = {"message": {"content": text}, "finish_reason": rest.pop("finish_reason", "stop")}
    return Answer.of({"choices": [choice], **rest})


def test_a_response_is_asked_as_it_was_written_and_completed(ada: Api, chat: Provider):
    usage = {"prompt_tokens": 5, "completion_tokens": 7}
    chat.script(said("It is so.", usage=usage))
    create(ada, input=TALK, max_output_tokens=16)
    job = ReportJob.objects.get()

    runner.run(job.pk)

    (call,) = chat.calls
    assert [message["role"] for message in call.json["messages"]] == [
        *("system", "user", "assistant", "user")
    ]
    assert call.json["messages"][0]["content"] == "be kind\n\nno rhymes"
    assert call.json["max_tokens"] == 16
    told = body_of(ada.get(path_of(job)))
    assert told["status"] == "completed"
    assert told["output"][0]["content"][0]["text"] == "It is so."
    assert told["usage"]["total_tokens"] == 12
    assert budget(ada.user)["spent_tokens"] == 12


def test_a_text_that_was_cut_is_incomplete(ada: Api, chat: Provider):
    chat.script(said("It is", finish_reason="length"))
    create(ada)
    job = ReportJob.objects.get()

    runner.run(job.pk)

    told = body_of(ada.get(path_of(job)))
    assert (told["status"], told["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


def test_tokens_that_nobody_counted_are_those_of_all_its_texts(ada: Api, chat: Provider):
    chat.script(said("a" * 40))
    create(ada, input="u" * 400, instructions="i" * 400)
    job = ReportJob.objects.get()

    runner.run(job.pk)

    asked = estimate_tokens("i" * 400 + "\n\n" + "u" * 400)
    assert row(job)["settled_tokens"] == asked + 10
    assert list(invariants.check()) == []


def test_retention_and_erasure_leave_no_text_of_it_and_its_key_still_tells(ada: Api):
    members: dict[str, Any] = {"input": TALK, "instructions": "zebra-instruction"}
    create(ada, **members)
    ReportJob.objects.update(
        status="succeeded", finished_at="2020-01-01T00:00:00Z", http_status=200
    )

    assert retention.erase_old() == 1

    kept = row(ReportJob.objects.get())
    assert kept["openai_request"] == {}
    assert "zebra" not in json.dumps(kept, default=str)
    assert create(ada, **members).status_code == 410
    assert create(ada, input=TALK).status_code == 422


def test_an_erased_person_leaves_no_text_and_an_export_has_them_all(ada: Api):
    job = job_in("succeeded", user=ada.user, openai_request=ASKED.kept(), **DONE)

    exported = "".join(persons.export(ada.user))
    persons.erase(ada.user)

    (told,) = json.loads(exported)["reports.reportjob"]
    assert told["openai_request"] == ASKED.kept()
    assert row(job)["openai_request"] == {}


def test_no_log_line_holds_a_text_of_it(ada: Api, chat: Provider, caplog: pytest.LogCaptureFixture):
    instruction, system, question, answer = CANARIES
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    chat.script(said(answer))

    with caplog.at_level("DEBUG"):
        create(ada, input=messages, instructions=instruction)
        create(ada, input=messages, instructions=f"{instruction} too")
        create(ada, input=[{"role": "zebra-role", "content": question}], key="key-2")
        named: dict[str, Any] = {"zebra-name": 1}
        create(ada, key="key-3", **named)
        runner.run(ReportJob.objects.get().pk)

    assert ReportJob.objects.get().result_text == answer
    assert caplog.records
    assert "zebra" not in caplog.text


def test_the_list_of_reports_reads_no_messages(ada: Api):
    job_in("succeeded", user=ada.user, openai_request=ASKED.kept(), **DONE)

    with CaptureQueriesContext(connection) as captured:
        page = body_of(ada.get("/reports"))

    assert len(page["results"]) == 1
    assert not [query for query in captured if "openai_request" in str(query["sql"])]
