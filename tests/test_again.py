"""POST /reports/{id}/again: the same prompt as a new job, linked to the old."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest

from reports.models import ReportJob
from tests.support import html
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import budget, give_budget, job_in, row

if TYPE_CHECKING:
    from django.http import HttpResponse

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
PROMPT = " kept \n exactly "


def again(api: Api, job: ReportJob, **headers: str) -> HttpResponse:
    """Ask for it again, without a body."""
    return api.request("POST", f"/reports/{job.pk}/again", headers=headers)


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_an_ended_job_is_asked_again_as_a_new_one(ada: Api, status: str):
    old = job_in(status, user=ada.user, prompt=PROMPT, metadata={"order": "17"})
    before = row(old)

    response = again(ada, old)

    new = ReportJob.objects.exclude(pk=old.pk).get()
    assert response.status_code == 202
    assert body_of(response) == {"job_id": str(new.pk), "status": "queued"}
    assert response.headers["Location"] == f"/reports/{new.pk}"
    assert UUID(response.headers["Idempotency-Key"]).version == 4
    assert response.headers["Idempotency-Key"] == new.idempotency_key
    assert (new.prompt, new.metadata, new.again_of) == (PROMPT, {"order": "17"}, old.pk)
    assert new.expires_at is None
    assert body_of(ada.get(f"/reports/{new.pk}"))["again_of"] == str(old.pk)
    assert row(old) == before
    assert budget(ada.user)["active_jobs"] == 1


def test_the_same_limit_begins_anew(ada: Api):
    old = job_in("failed", user=ada.user, age_s=900)
    old.expires_at = old.created_at + timedelta(seconds=90)
    old.save()

    again(ada, old)

    new = ReportJob.objects.exclude(pk=old.pk).get()
    assert new.expires_at == new.created_at + timedelta(seconds=90)


def test_without_a_key_each_is_a_new_job_and_with_one_they_are_the_same(ada: Api):
    old = job_in("succeeded", user=ada.user)

    unkeyed = {body_of(again(ada, old))["job_id"] for _ in range(2)}
    keyed = [again(ada, old, Idempotency_Key='"mine"') for _ in range(2)]

    assert len(unkeyed) == 2
    assert len({body_of(response)["job_id"] for response in keyed} - unkeyed) == 1
    assert keyed[1].headers["Idempotent-Replayed"] == "true"
    assert keyed[1].headers["Idempotency-Key"] == "mine"


@pytest.mark.parametrize("status", ["queued", "running"])
def test_a_job_that_has_not_ended_is_not_repeated(ada: Api, status: str):
    job = job_in(status, user=ada.user)

    with assert_nothing_written():
        response = again(ada, job)

    assert_problem(response, 409, "job_active")
    assert response.headers["x-should-retry"] == "false"


def test_an_erased_prompt_cannot_be_asked_again(ada: Api):
    job = job_in("succeeded", user=ada.user)
    ada.request("DELETE", f"/reports/{job.pk}")

    with assert_nothing_written():
        assert_problem(again(ada, job), 410, "erased")


def test_the_job_of_another_is_not_there(ada: Api, bob: Api):
    job = job_in("succeeded", user=bob.user)

    with assert_nothing_written():
        foreign, unknown = again(ada, job), ada.request("POST", f"/reports/{uuid4()}/again")

    assert_problem(foreign, 404, "not_found")
    assert foreign.content == unknown.content


@pytest.mark.parametrize(
    ("key", "code"), [("", "idempotency_key_missing"), ("ä", "idempotency_key_invalid")]
)
def test_a_key_that_is_sent_must_be_one(ada: Api, key: str, code: str):
    job = job_in("succeeded", user=ada.user)

    with assert_nothing_written():
        assert_problem(again(ada, job, Idempotency_Key=key), 400, code)


def test_the_key_of_another_prompt_is_refused(ada: Api):
    first, second = (job_in("succeeded", user=ada.user, prompt=text) for text in ("one", "two"))

    members = assert_problem(
        again(ada, first, Idempotency_Key=second.idempotency_key), 422, "idempotency_key_reused"
    )

    assert members == {"job_id": str(second.pk)}


def test_it_is_charged_like_any_other(ada: Api):
    job = job_in("succeeded", user=ada.user)
    give_budget(ada.user, daily_tokens=7, spent_tokens=7)

    with assert_nothing_written():
        assert_problem(again(ada, job), 429, "budget_exhausted")


def test_a_session_needs_its_csrf_token(ada: Api):
    job = job_in("succeeded", user=ada.user)

    response = ada.browser().post(f"/reports/{job.pk}/again", headers={"Accept": "*/*"})

    assert_problem(response, 403, "csrf_failed")


def test_the_page_links_what_it_asks_again_unless_the_prompt_was_changed(ada: Api):
    old = job_in("failed", user=ada.user, prompt="why?", metadata={"order": "17"})
    browser = ada.browser()
    for prompt in ("why?", "why not?"):
        form = html.read(browser.get("/", {"again": str(old.pk)})).fields
        fields = {
            **form,
            "prompt": prompt,
            "csrfmiddlewaretoken": browser.cookies["csrftoken"].value,
        }
        assert browser.post("/", fields).status_code == 303

    same, changed = ReportJob.objects.exclude(pk=old.pk).order_by("pk")
    assert (same.again_of, same.metadata) == (old.pk, {"order": "17"})
    assert (changed.again_of, changed.metadata) == (None, {})
    page = html.read(browser.get(f"/jobs/{same.pk}/"))
    assert page.links(f"/jobs/{old.pk}/")
    assert "order17" in page.words.replace(" ", "")
