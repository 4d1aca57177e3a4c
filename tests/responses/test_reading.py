"""/v1 after the POST: poll, cancel, delete, input items, models."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reports import ids
from responses import objects
from tests.responses.calls import RESPONSES, assert_error, create, path_of
from tests.responses.test_objects import ASKED, DONE
from tests.support.expect import assert_unchanged, body_of
from tests.support.rows import job_in, row
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_any_job_of_ones_own_is_a_response(ada: Api, status: str, slash: str):
    job = job_in(status, user=ada.user)

    response = ada.get(path_of(job) + slash + "?include=")

    assert response.status_code == 200
    assert body_of(response) == objects.response_of(job)
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert ("Retry-After" in response.headers) is (status in {"queued", "running"})


def test_a_poll_of_a_known_state_is_304(ada: Api):
    job = job_in("running", user=ada.user)
    etag = ada.get(path_of(job)).headers["ETag"]

    with recorded() as statements:
        known = ada.get(path_of(job), If_None_Match=etag)
    other = ada.get(path_of(job), If_None_Match='"another"')

    assert (known.status_code, known.content) == (304, b"")
    assert known.headers["Retry-After"] == "1"
    assert other.status_code == 200
    assert len(statements) == 2


@pytest.mark.parametrize("below", ["", "/cancel", "/input_items"])
@pytest.mark.parametrize("some_id", ["none", "resp_none", f"resp_{'0' * 32}", "{job_id}", "%00"])
def test_what_is_no_response_of_ones_own_is_not_found(ada: Api, bob: Api, below: str, some_id: str):
    job = job_in("succeeded", user=ada.user)
    method = "POST" if below == "/cancel" else "GET"
    paths = [f"{RESPONSES}/{some_id.format(job_id=job.pk)}{below}", path_of(job, below)]

    answers = [ada.request(method, paths[0]), bob.request(method, paths[1])]

    for answer in answers:
        assert_error(answer, 404, "not_found")
    assert answers[0].content == answers[1].content


def test_a_cancelled_response_says_so_and_may_be_cancelled_again(ada: Api):
    path = f"{RESPONSES}/{body_of(create(ada))['id']}"

    first, again = (ada.request("POST", f"{path}/cancel") for _ in range(2))

    assert (first.status_code, again.status_code) == (200, 200)
    assert body_of(first) == body_of(again) == body_of(ada.get(path))
    assert body_of(first)["status"] == "cancelled"


def test_what_has_ended_otherwise_cannot_be_cancelled(ada: Api):
    job = job_in("succeeded", user=ada.user)

    with assert_unchanged(job):
        response = ada.request("POST", path_of(job, "/cancel"))

    assert_error(response, 409, "job_finished")
    assert response.headers["x-should-retry"] == "false"


def test_a_deleted_response_is_gone_and_its_row_stays(ada: Api):
    job = job_in("succeeded", user=ada.user, openai_request=ASKED.kept(), **DONE)

    response = ada.request("DELETE", path_of(job))

    told = {"id": ids.response_id(job.pk), "object": "response", "deleted": True}
    assert (response.status_code, body_of(response)) == (200, told)
    kept = row(job)
    assert (kept["prompt"], kept["result_text"], kept["openai_request"]) == ("", "", {})
    assert_error(ada.get(path_of(job)), 404, "not_found")
    assert_error(ada.request("DELETE", path_of(job)), 404, "not_found")


@pytest.mark.parametrize("status", ["queued", "running"])
def test_what_has_not_ended_is_not_deleted(ada: Api, status: str):
    job = job_in(status, user=ada.user)

    with assert_unchanged(job):
        response = ada.request("DELETE", path_of(job))

    assert_error(response, 409, "job_active")


def test_an_erased_report_keeps_no_mark_of_a_response(ada: Api):
    job = job_in("succeeded", user=ada.user)

    ada.request("DELETE", f"/reports/{job.pk}")

    assert row(job)["openai_request"] is None


def test_the_input_is_turned_in_pages(ada: Api):
    job = job_in("queued", user=ada.user, openai_request=ASKED.kept())
    whole = objects.items_of(job)

    newest = body_of(ada.get(path_of(job, "/input_items")))
    first = body_of(ada.get(path_of(job, "/input_items?order=asc&limit=3")))
    query = f"?order=asc&limit=3&after={first['last_id']}"
    second = body_of(ada.get(path_of(job, f"/input_items{query}")))
    beyond = body_of(ada.get(path_of(job, f"/input_items?order=asc&after={whole[-1]['id']}")))

    assert newest["data"] == whole[::-1]
    assert (first["data"], first["has_more"]) == (whole[:3], True)
    assert (second["data"], second["has_more"]) == (whole[3:], False)
    assert (second["first_id"], second["last_id"]) == (whole[3]["id"], whole[3]["id"])
    assert (beyond["data"], beyond["first_id"]) == ([], None)


def test_a_report_is_one_message_of_its_user(ada: Api):
    job = job_in("queued", user=ada.user, prompt="why?")

    (item,) = body_of(ada.get(path_of(job, "/input_items")))["data"]

    assert (item["role"], item["content"]) == ("user", [{"type": "input_text", "text": "why?"}])


@pytest.mark.parametrize(
    ("query", "param"),
    [
        *(
            ("order=up", "order"),
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
        ),
        *(("limit=%D9%A3", "limit"), ("after=msg_none", "after")),
    ],
)
def test_another_page_is_refused(ada: Api, query: str, param: str):
    job = job_in("queued", user=ada.user)

    response = ada.get(path_of(job, f"/input_items?{query}"))

    assert_error(response, 400, "invalid_request", param)


@pytest.mark.parametrize(("name", "shown"), [("org/small", "org/small"), ("", "default")])
def test_there_is_one_model(ada: Api, settings: Settings, name: str, shown: str):
    settings.INFERENCE_MODEL = name

    listed = body_of(ada.get("/v1/models"))
    found = body_of(ada.get(f"/v1/models/{shown}"))

    assert listed == {"object": "list", "data": [found]}
    assert (found["id"], found["object"]) == (shown, "model")
    error = assert_error(ada.get("/v1/models/another"), 404, "model_not_found", "model")
    assert shown in error["message"]


def test_an_erased_report_is_asked_again_by_nobody_and_a_response_is(ada: Api):
    job = job_in("succeeded", user=ada.user, openai_request=ASKED.kept(), **DONE)

    again = body_of(ada.request("POST", f"/reports/{job.pk}/again"))["job_id"]

    items = body_of(ada.get(f"{RESPONSES}/resp_{again.replace('-', '')}/input_items?order=asc"))
    assert [item["content"][0]["text"] for item in items["data"]] == [
        said.text for said in ASKED.messages
    ]


def test_a_session_creates_with_its_csrf_token_only(ada: Api):
    browser: Client = ada.browser()
    body = '{"input": "why?", "background": true}'

    without = browser.post(RESPONSES, body, content_type="application/json")
    browser.get("/")
    token = browser.cookies["csrftoken"].value
    with_it = browser.post(
        RESPONSES, body, content_type="application/json", headers={"X-CSRFToken": token}
    )

    assert_error(without, 403, "csrf_failed")
    assert with_it.status_code == 200


def test_a_person_with_a_browser_gets_a_page(ada: Api):
    response = ada.get("/v1/models", Accept="text/html")

    assert response.status_code == 200
    assert "Models" in response.content.decode()
