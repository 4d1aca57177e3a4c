"""Who is asking: bearer tokens, sessions with their CSRF token, and everybody else."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import pytest
from django.test import Client
from django.utils import timezone

from access.models import Token
from reports.models import ReportJob
from tests.support.clients import JSON, Api
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import job_in

if TYPE_CHECKING:
    from django.http import HttpResponse

pytestmark = pytest.mark.django_db
PROTECTED = [
    ("POST", "/reports"),
    ("GET", "/reports"),
    ("GET", "/reports/none"),
    ("DELETE", "/reports/none"),
    ("POST", "/reports/none/cancel"),
    ("GET", "/budget"),
    ("PUT", "/reports"),
]


def assert_not_authenticated(response: HttpResponse) -> None:
    """The one 401."""
    assert assert_problem(response, 401, "not_authenticated") == {}
    assert response.headers["WWW-Authenticate"] == "Bearer"


def post(client: Client, *, key: str = "key-1", **headers: str) -> HttpResponse:
    """POST a good prompt as this client."""
    answer: object = client.post(
        "/reports",
        json.dumps({"prompt": "hello"}),
        content_type=JSON,
        headers={"Idempotency-Key": key, **headers},
    )
    return cast("HttpResponse", answer)


def csrf_token(client: Client) -> str:
    """The token that the sign-in page put into a cookie."""
    client.get("/login/")
    client.get("/")
    return client.cookies["csrftoken"].value


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_without_credentials_nothing_is_answered(method: str, path: str, slash: str):
    with assert_nothing_written():
        response = Client().generic(method, path + slash)

    assert_not_authenticated(response)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer "])
def test_the_scheme_is_read_in_any_case(ada: Api, scheme: str):
    assert ada.get("/budget", Authorization=f"{scheme} {ada.token}").status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer junk",
        "Bearer {}x",
        "Bearer x{}",
        "Bearer {} {}",
        "{}",
        "Token {}",
        "Basic {}",
        "Bearer:{}",
        "Bearer\t{}",
        "Bearer \u00e9",
        "Bearer \u00ef\u00bb\u00bf{}",
        "Bearer a\x00b",
        "Bearer {}\x00",
        "Bearer " + "a" * 100_000,
    ],
)
def test_credentials_that_are_not_good_are_nobodys(ada: Api, authorization: str):
    with assert_nothing_written():
        response = ada.post("hello", Authorization=authorization.format(ada.token, ada.token))

    assert_not_authenticated(response)


def test_only_a_hash_of_a_token_is_stored(ada: Api):
    [stored] = Token.objects.values()

    assert ada.token not in str(stored)
    assert stored["user_id"] == ada.user_id
    assert stored["expiry"] is None


def test_a_deleted_token_is_nobodys(ada: Api):
    Token.objects.all().delete()

    assert_not_authenticated(ada.post("hello"))


def test_a_token_that_ran_out_is_nobodys(ada: Api):
    Token.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    assert_not_authenticated(ada.get("/budget"))

    Token.objects.update(expiry=timezone.now() + timedelta(hours=1))
    assert ada.get("/budget").status_code == 200


@pytest.mark.parametrize(("method", "path"), PROTECTED)
def test_a_deactivated_users_token_is_nobodys(ada: Api, method: str, path: str):
    ada.user.is_active = False
    ada.user.save()

    with assert_nothing_written():
        response = ada.request(method, path)

    assert_not_authenticated(response)


def test_a_deactivated_users_jobs_stay(ada: Api):
    accepted = body_of(ada.post("hello"))
    ada.user.is_active = False
    ada.user.save()

    assert ReportJob.objects.get().status == "queued"
    assert str(ReportJob.objects.get().pk) == accepted["job_id"]


def test_a_session_may_read(ada: Api):
    job = job_in("queued", user=ada.user)

    response = ada.browser().get(f"/reports/{job.pk}", headers={"Accept": JSON})

    assert response.status_code == 200
    assert response.json()["job_id"] == str(job.pk)


def test_a_session_posts_with_its_csrf_token(ada: Api):
    client = ada.browser()

    response = post(client, **{"X-CSRFToken": csrf_token(client)})

    assert response.status_code == 202
    assert ReportJob.objects.get().user == ada.user


@pytest.mark.parametrize("token", [None, "", "wrong", "a" * 32, "a" * 64])
def test_a_session_without_its_csrf_token_is_refused(ada: Api, token: str | None):
    client = ada.browser()
    good = csrf_token(client)
    headers = {} if token is None else {"X-CSRFToken": token}

    with assert_nothing_written():
        response = post(client, **headers)

    assert assert_problem(response, 403, "csrf_failed") == {}
    assert post(client, **{"X-CSRFToken": good}).status_code == 202


def test_a_browser_without_its_csrf_token_gets_a_page(ada: Api):
    with assert_nothing_written():
        response = post(ada.browser(), Accept="text/html")

    assert response.status_code == 403
    assert response.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/reports/{}"), ("POST", "/reports/{}/cancel")]
)
def test_every_unsafe_method_of_a_session_needs_the_token(ada: Api, method: str, path: str):
    job = job_in("succeeded", user=ada.user)

    with assert_nothing_written():
        response = ada.browser().generic(method, path.format(job.pk))

    assert assert_problem(response, 403, "csrf_failed") == {}


def test_a_token_needs_no_csrf_token(ada: Api):
    client = Client(enforce_csrf_checks=True)

    response = post(client, Authorization=f"Bearer {ada.token}")

    assert response.status_code == 202


def test_a_bad_token_is_not_saved_by_a_session(ada: Api):
    client = ada.browser()

    assert_not_authenticated(post(client, Authorization="Bearer junk"))


def test_a_token_goes_before_a_session(ada: Api, bob: Api):
    response = post(ada.browser(), Authorization=f"Bearer {bob.token}")

    assert response.status_code == 202
    assert ReportJob.objects.get().user == bob.user


def test_an_ended_session_is_nobodys(ada: Api):
    client = ada.browser()
    client.logout()

    assert_not_authenticated(post(client))


def test_a_deactivated_users_session_is_nobodys(ada: Api):
    client = ada.browser()
    ada.user.is_active = False
    ada.user.save()

    assert_not_authenticated(post(client))


@pytest.mark.parametrize("path", ["/", "/tokens/", "/admin/"])
def test_a_deactivated_user_is_out_of_the_pages_at_the_next_request(ada: Api, path: str):
    ada.user.is_staff = True
    ada.user.save()
    client = ada.browser()
    assert client.get(path).status_code == 200
    ada.user.is_active = False
    ada.user.save()

    response = client.get(path)

    assert response.status_code == 302
    assert response.headers["Location"].endswith(f"login/?next={path}")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_browser_without_a_session_is_told_too(method: str):
    response = Client().generic(method, "/reports", headers={"Accept": "text/html"})

    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_options_tell_the_signed_in_only(ada: Api):
    with assert_nothing_written():
        assert_not_authenticated(Client().options("/reports"))  # type: ignore[arg-type]
        told = ada.request("OPTIONS", "/reports")

    assert told.status_code == 200
    assert told.headers["Allow"] == "GET, POST, HEAD, OPTIONS"
