"""Errors: one shape for all of them, for programs and for browsers, and nothing that leaks."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
from django.db import InterfaceError, OperationalError, connection
from django.test import Client

from reports import errors
from reports.errors import Refusal
from tests.support.expect import assert_nothing_written, assert_problem
from tests.support.rows import give_budget, job_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.support.clients import Api

# CONTRACT section 3, and below the line what any HTTP API needs beside it.
CODES = {
    "idempotency_key_missing": 400,
    "idempotency_key_invalid": 400,
    "invalid_request": 400,
    "not_authenticated": 401,
    "csrf_failed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "job_active": 409,
    "job_finished": 409,
    "too_many_webhooks": 409,
    "webhook_off": 409,
    "delivery_active": 409,
    "erased": 410,
    "too_large": 413,
    "unsupported_media_type": 415,
    "idempotency_key_reused": 422,
    "exceeds_daily_budget": 422,
    "budget_exhausted": 429,
    "too_many_active_jobs": 429,
    "too_many_streams": 429,
    "too_many_attempts": 429,
    "unavailable": 503,
    # ---
    "bad_request": 400,
    "permission_denied": 403,
    "body_timeout": 408,
    "internal_error": 500,
}
HTML = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"


def refusals() -> list[type[Refusal]]:
    """Every class of the table."""
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in found if issubclass(kind, Refusal) and kind is not Refusal]


def test_the_table_of_refusals_is_the_contracts():
    assert {kind.code: kind.status for kind in refusals()} == CODES
    assert len(refusals()) == len(CODES)


@pytest.mark.parametrize("kind", refusals(), ids=lambda kind: kind.code)
def test_a_refusal_makes_a_whole_problem_document(kind: type[Refusal]):
    document = kind().document()

    assert document.pop("detail") == kind.detail
    assert kind.detail.endswith(".")
    members: dict[str, object] = {"errors": {}} if kind is errors.InvalidRequest else {}
    assert document == {
        "type": kind.type,
        "title": HTTPStatus(kind.status).phrase,
        "status": kind.status,
        "error": kind.code,
        **members,
    }
    assert json.loads(json.dumps(document)) == document


def test_the_error_codes_of_jobs_are_the_contracts():
    assert [code.value for code in errors.ErrorCode] == [
        "provider_5xx",
        "provider_rejected",
        "provider_timeout",
        "provider_unreachable",
        "provider_invalid_response",
        "worker_lost",
        "queue_expired",
        "cancelled",
        "internal_error",
    ]


@pytest.mark.django_db
@pytest.mark.parametrize("accept", [None, "*/*", "application/json", HTML])
@pytest.mark.parametrize("path", ["/reports/a/b/c", "/budget/x", "/healthz/x"])
def test_an_unknown_path_of_the_api_is_a_problem_to_everybody(path: str, accept: str | None):
    headers = {} if accept is None else {"Accept": accept}
    response = Client().get(path, headers=headers)

    # Under /reports an unknown id needs somebody who asks.
    if path.startswith("/reports"):
        assert response.status_code == 401
    else:
        assert assert_problem(response, 404, "not_found") == {}
        assert response.headers["Cache-Control"] == "private, no-cache"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_check_is_only_read(path: str, method: str):
    response = Client(enforce_csrf_checks=True).generic(method, path)

    assert assert_problem(response, 405, "method_not_allowed") == {}
    assert response.headers["Allow"] == "GET, HEAD"


def test_an_unknown_path_is_a_problem_to_a_program_and_a_page_to_a_browser():
    program = Client().get("/nothing/here")
    browser = Client().get("/nothing/here", headers={"Accept": HTML})

    assert assert_problem(program, 404, "not_found") == {}
    assert browser.status_code == 404
    assert browser.headers["Content-Type"].startswith("text/html")


@pytest.mark.django_db
def test_a_foreign_host_is_a_bad_request(ada: Api):
    with assert_nothing_written():
        response = ada.post("hello", Host="evil.example")

    assert assert_problem(response, 400, "bad_request") == {}


@pytest.mark.django_db
def test_a_problem_document_is_acceptable_as_json(ada: Api):
    for accept in ("application/problem+json", "application/json", "*/*", "application/*"):
        response = ada.get("/reports/none", Accept=accept)
        assert assert_problem(response, 404, "not_found") == {}


def refused(api: Api) -> Iterator[tuple[str, Any]]:
    """One refusal of each kind that a signed-in user can meet, as a browser asks."""
    browser = {"Accept": HTML}
    active = job_in("queued", user=api.user)
    ended = job_in("succeeded", user=api.user)
    taken = job_in("succeeded", user=api.user, idempotency_key="taken")
    erased = job_in("succeeded", user=api.user)
    api.request("DELETE", f"/reports/{erased.pk}")
    give_budget(api.user, daily_tokens=10, spent_tokens=9)
    assert taken.prompt != "hello"
    yield "idempotency_key_missing", api.post("hello", key=None, **browser)
    yield "idempotency_key_invalid", api.post("hello", key="k" * 256, **browser)
    yield "invalid_request", api.post("", **browser)
    yield "not_found", api.get("/reports/none", **browser)
    yield "method_not_allowed", api.request("PUT", "/reports", headers=browser)
    yield "job_active", api.request("DELETE", f"/reports/{active.pk}", headers=browser)
    yield "job_finished", api.request("POST", f"/reports/{ended.pk}/cancel", headers=browser)
    yield "erased", api.get(f"/reports/{erased.pk}", **browser)
    yield "too_large", api.post_raw(b'{"a":"' + b"x" * 140_000 + b'"}', **browser)
    yield "unsupported_media_type", api.post_raw(b"a", content_type="text/plain", **browser)
    yield "idempotency_key_reused", api.post("hello", key="taken", **browser)
    yield "exceeds_daily_budget", api.post("a" * 80, **browser)
    yield "budget_exhausted", api.post("a" * 8, **browser)


@pytest.mark.django_db
def test_the_browsable_api_shows_the_same_errors_to_a_browser(ada: Api):
    told = list(refused(ada))

    for code, response in told:
        page = response.content.decode()
        assert response.status_code == CODES[code], code
        assert response.headers["Content-Type"] == "text/html; charset=utf-8", code
        assert f"&quot;error&quot;: &quot;{code}&quot;" in page, code
    assert len(told) == 13


@pytest.mark.django_db
def test_the_browsable_api_shows_a_job_and_escapes_its_text(ada: Api):
    job = job_in("succeeded", user=ada.user, result_text="<script>alert(1)</script>")

    for path in ("/reports", f"/reports/{job.pk}", "/budget"):
        response = ada.get(path, Accept=HTML)
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"<script>alert(1)" not in response.content
    assert b"&lt;script&gt;alert(1)" in ada.get(f"/reports/{job.pk}", Accept=HTML).content


class Failing:
    """Makes every statement of a block fail as a broken database or our own mistake would."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *_: object) -> None:
        raise self.error


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [OperationalError, InterfaceError])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_database_that_is_away_is_unavailable(ada: Api, kind: type[Exception], method: str):
    with connection.execute_wrapper(Failing(kind("server closed the connection"))):
        response = ada.post("hello") if method == "POST" else ada.get("/reports/none")

    assert assert_problem(response, 503, "unavailable") == {}
    assert response.headers["Retry-After"] == "2"


@pytest.mark.django_db
def test_our_own_mistake_is_logged_and_told_without_values(
    ada: Api, caplog: pytest.LogCaptureFixture, settings: Settings
):
    settings.DEBUG = True
    secret = "a prompt that nobody may read"

    with connection.execute_wrapper(Failing(KeyError(secret))):
        response = ada.post(secret)

    assert assert_problem(response, 500, "internal_error") == {}
    [record] = [record for record in caplog.records if record.name == "reports"]
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("a request broke: KeyError\n  File ")
    assert secret not in caplog.text
    assert secret.encode() not in response.content
