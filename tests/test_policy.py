"""What a browser may load and run: the same on every page, whatever has gone wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from reports.models import ReportJob
from reports_project import policy
from tests.support.rows import job_in

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db

STRICT = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
}


def assert_strict(response: Answer) -> None:
    policy = response.headers["Content-Security-Policy"]
    assert set(policy.split("; ")) >= STRICT
    assert "unsafe" not in policy
    assert "*" not in policy


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 302),
        ("/login/", 200),
        ("/login", 200),
        ("/logout/", 405),
        ("/logout", 405),
        ("/nowhere", 404),
        ("/jobs/nonsense/", 404),
        ("/admin/login/", 200),
        ("/reports", 401),
    ],
)
def test_every_answer_to_a_stranger_carries_the_policy(path: str, status: int):
    response = Client(headers={"Accept": "text/html"}).get(path)

    assert response.status_code == status
    assert_strict(response)


@pytest.mark.parametrize("path", ["/", "/jobs/{}/", "/jobs/{}/erase/", "/jobs/{}/text.md"])
def test_every_page_of_ones_own_carries_the_policy_and_stays_out_of_caches(ada: Api, path: str):
    response = ada.browser().get(path.format(job_in("succeeded", user=ada.user).pk))

    assert response.status_code == 200
    assert_strict(response)
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert {"private", "no-store"} <= set(response.headers["Cache-Control"].split(", "))


def test_a_foreign_host_a_missing_token_and_a_fault_of_ours_carry_the_policy(ada: Api):
    browser = Client(
        enforce_csrf_checks=True, raise_request_exception=False, headers={"Accept": "text/html"}
    )
    browser.force_login(ada.user)
    broken = job_in("failed", user=ada.user)
    ReportJob.objects.filter(pk=broken.pk).update(error_code="unheard_of")

    answers = [
        browser.get("/", headers={"Host": "elsewhere.example"}),
        browser.post("/", {"prompt": "p", "key": "k"}),
        browser.get(f"/jobs/{broken.pk}/"),
    ]

    assert [answer.status_code for answer in answers] == [400, 403, 500]
    for answer in answers:
        assert_strict(answer)
        assert b"<style" not in answer.content
        assert b" style=" not in answer.content


def answers_to(ada: Api) -> dict[str, Answer]:
    """One answer of each kind: whoever wrote it."""
    job = job_in("succeeded", user=ada.user)
    known = ada.get(f"/reports/{job.pk}").headers["ETag"]
    stranger, browser = Client(), ada.browser()
    return {
        "a job": ada.get(f"/reports/{job.pk}"),
        "a job that is known": ada.get(f"/reports/{job.pk}", If_None_Match=known),
        "nothing to tell": ada.request("DELETE", f"/reports/{job.pk}"),
        "a refusal of the API": ada.post(" "),
        "a refusal of Django's, as a problem": stranger.get("/nowhere"),
        "a method of a check": stranger.post("/healthz"),
        "a foreign host": stranger.get("/budget", headers={"Host": "elsewhere.example"}),
        "a bad token": stranger.get("/budget", headers={"Authorization": "Bearer x"}),
        "the browsable API": browser.get("/reports", headers={"Accept": "text/html"}),
        "metrics": stranger.get("/metrics"),
        "readiness": stranger.get("/readyz"),
        "the document": stranger.get("/schema"),
        "its page": stranger.get("/docs"),
        "a file that is not there": stranger.get("/static/none.js"),
        "a way to sign in": stranger.get("/tokens/"),
        "the admin's door": stranger.get("/admin/login/"),
    }


def test_a_file_carries_the_headers():
    response = Client().get("/static/docs.js")
    told = {name: response.headers.get(name) for name in policy.HEADERS}
    response.close()

    assert told == policy.HEADERS


def test_no_answer_is_without_the_headers(ada: Api):
    for name, answer in answers_to(ada).items():
        for header, text in policy.HEADERS.items():
            if (name, header) != ("its page", "Content-Security-Policy"):
                assert answer.headers.get(header) == text, (name, header)
        assert "Strict-Transport-Security" not in answer.headers


def test_over_https_every_answer_asks_for_https(ada: Api, settings: Settings):
    settings.SECURE_HSTS_SECONDS = 60
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = settings.SECURE_HSTS_PRELOAD = True
    told = [
        Client().get("/nowhere", secure=True),
        Client().get("/healthz", secure=True),
        Client().get("/budget", secure=True),
        Client().get("/login/", secure=True),
    ]

    asked = {answer.headers.get("Strict-Transport-Security") for answer in told}
    assert asked == {"max-age=60; includeSubDomains; preload"}


def test_signing_out_leaves_no_copy_and_needs_a_form(ada: Api):
    asked = Client(headers={"Accept": "text/html"}).get("/logout")
    browser = ada.browser()
    token = browser.get("/").cookies["csrftoken"].value

    left = browser.post("/logout", {"csrfmiddlewaretoken": token})

    assert (asked.status_code, asked.headers["Allow"]) == (405, "POST, OPTIONS")
    assert b'action="/logout/"' in asked.content
    assert (left.status_code, left.headers["Location"]) == (302, "/login/")
    for answer in (asked, left):
        assert_strict(answer)
        assert "no-store" in answer.headers["Cache-Control"]
