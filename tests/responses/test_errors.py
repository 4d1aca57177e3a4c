"""Every error below /v1 is in OpenAI's envelope, wherever it arises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError, connection
from django.test import Client

from reports import errors
from reports.envelopes import envelope_of
from reports.models import ReportJob
from reports_project import asgi
from tests.responses.calls import RESPONSES, assert_error, create
from tests.support.expect import assert_problem, body_of
from tests.support.rows import give_budget, job_in
from tests.test_front_door import SCOPE, answer_to, body
from tests.test_problems import refusals

if TYPE_CHECKING:
    from pytest_django import Settings

    from reports.errors import Refusal
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
HTML = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("kind", refusals(), ids=lambda kind: kind.code)
def test_every_refusal_has_an_envelope(kind: type[Refusal]):
    error = envelope_of(kind())["error"]

    assert error["message"] == kind.detail
    assert error["type"]
    assert error["param"] is None
    renamed = "invalid_api_key" if kind is errors.NotAuthenticated else kind.code
    assert error["code"] == renamed


@pytest.mark.parametrize(
    ("pieces", "status", "code"),
    [([b"x" * 200_000], 413, "too_large"), ([], 408, "body_timeout")],
)
def test_what_is_refused_at_the_front_door_has_one_too(
    monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], status: int, code: str
):
    monkeypatch.setattr(asgi, "BODY_TIMEOUT_S", 5 if pieces else 0.05)

    messages = [body(piece, more=False) for piece in pieces]
    start, end = answer_to(*messages, scope={**SCOPE, "path": RESPONSES})

    assert start["status"] == status
    assert dict(start["headers"])[b"content-type"] == b"application/json"
    assert json.loads(end["body"])["error"]["code"] == code


@pytest.mark.parametrize("authorization", ["", "Bearer sk-wrong"])
def test_a_bad_key_is_401(ada: Api, authorization: str):
    response = ada.request("GET", RESPONSES, headers={"Authorization": authorization})

    assert_error(response, 401, "invalid_api_key")
    assert response.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/chat/completions", "/v1/embeddings"])
@pytest.mark.parametrize("accept", [HTML, "application/json"])
def test_what_is_not_there_is_404(ada: Api, path: str, accept: str):
    assert_error(ada.get(path, Accept=accept), 404, "not_found")


def test_what_only_looks_like_it_is_not_openai_s(ada: Api):
    assert_problem(ada.get("/v10", Accept="application/json"), 404, "not_found")


def test_another_method_is_405_and_says_which_there_are(ada: Api):
    response = ada.request("PUT", RESPONSES)

    assert_error(response, 405, "method_not_allowed")
    assert "POST" in response.headers["Allow"]


def test_a_foreign_host_is_400(ada: Api):
    response = Client().get("/v1/models", headers={"Host": "evil.example"})

    assert_error(response, 400, "bad_request")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"", 400, "invalid_request"),
        (b"[]", 400, "invalid_request"),
        (b"{", 400, "invalid_request"),
        (b"\xff", 400, "invalid_request"),
        (b'{"input": "' + b"a" * 128 * 1024 + b'"}', 413, "too_large"),
    ],
)
def test_a_body_that_is_none(ada: Api, sent: bytes, status: int, code: str):
    assert_error(ada.post_raw(sent, path=RESPONSES), status, code)


def test_another_media_type_is_415(ada: Api):
    response = ada.post_raw(b"{}", path=RESPONSES, content_type="text/plain")

    assert_error(response, 415, "unsupported_media_type")


@pytest.mark.parametrize("key", ["", "a\x7f", "k" * 256])
def test_a_key_that_is_none_is_refused(ada: Api, key: str):
    code = "idempotency_key_invalid" if key else "idempotency_key_missing"

    assert_error(create(ada, key=key), 400, code)


@pytest.mark.django_db(transaction=True)
def test_a_spent_budget_says_when_to_come_back_and_that_it_is_not_now(ada: Api):
    give_budget(ada.user, daily_tokens=100_000, spent_tokens=100_000)

    response = create(ada)

    error = assert_error(response, 429, "budget_exhausted")
    assert error["type"] == "insufficient_quota"
    assert error["remaining_tokens"] == 0
    assert response.headers["x-should-retry"] == "false"
    assert int(response.headers["Retry-After"]) > 0
    assert response.headers["RateLimit"].startswith('"daily-tokens";r=0;')


@pytest.mark.django_db(transaction=True)
def test_too_many_active_jobs_are_worth_another_try(ada: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 1
    job_in("queued", user=ada.user)

    response = create(ada)

    assert_error(response, 429, "too_many_active_jobs")
    assert "x-should-retry" not in response.headers
    assert response.headers["Retry-After"] == "5"


@pytest.mark.django_db(transaction=True)
def test_more_than_a_whole_day_is_422(ada: Api):
    give_budget(ada.user, daily_tokens=0)

    response = create(ada)

    assert assert_error(response, 422, "exceeds_daily_budget")["type"] == "insufficient_quota"
    assert response.headers["x-should-retry"] == "false"


def test_a_database_that_is_away_is_503(ada: Api, monkeypatch: pytest.MonkeyPatch):
    def gone(*_: object, **__: object):
        raise OperationalError("server closed the connection")

    monkeypatch.setattr(ReportJob.objects, "access", gone)
    response = ada.get(f"{RESPONSES}/resp_{'0' * 32}")

    assert_error(response, 503, "unavailable")
    assert connection.is_usable()


def test_a_fault_of_ours_is_500_and_tells_nothing(ada: Api, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object, **__: object):
        raise RuntimeError("secret")

    monkeypatch.setattr(ReportJob.objects, "access", broken)
    response = ada.get(f"{RESPONSES}/resp_{'0' * 32}")

    assert_error(response, 500, "internal_error")
    assert "secret" not in json.dumps(body_of(response))
