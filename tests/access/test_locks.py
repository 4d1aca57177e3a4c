"""Who tries passwords is locked out for a while, on the page and in the admin alike."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from axes.models import AccessAttempt
from django.conf import settings as configured
from django.db.models import F
from django.test import Client

from tests.support import html

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db
GOOD = "correct horse battery staple"
HERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"
LIMIT = configured.AXES_FAILURE_LIMIT


@pytest.fixture(autouse=True)
def has_a_password(ada: Api, settings: Settings) -> None:
    """Ada's, hashed quickly: how slowly is not the question here."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    ada.user.set_password(GOOD)
    ada.user.is_staff = True
    ada.user.save()


def sign_in(
    password: str, *, name: str = "ada", address: str = HERE, path: str = "/login/", **headers: str
) -> Answer:
    """One try, from a browser without a session."""
    form = {"username": name, "password": password, "next": "/jobs/1/"}
    return Client(REMOTE_ADDR=address).post(path, form, headers=headers)


def fail(times: int = LIMIT, **where: str) -> list[int]:
    """So many wrong passwords; the statuses of the answers."""
    return [sign_in(f"wrong {number}", **where).status_code for number in range(times)]


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
def test_after_a_few_wrong_passwords_the_page_tells_when_to_come_back(path: str):
    statuses = fail(path=path)

    refused = sign_in(GOOD, path=path)

    assert statuses == [200] * (LIMIT - 1) + [429]
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) in range(890, 901)
    page = html.read(refused)
    assert "Try again in 15 minutes." in page.words
    assert (page.fields["username"], page.fields["next"]) == ("ada", "/jobs/1/")
    assert "no-store" in refused.headers["Cache-Control"]
    assert "sessionid" not in refused.cookies  # type: ignore[attr-defined]


def test_a_program_gets_the_same_status():
    fail()

    assert sign_in(GOOD, Accept="*/*").status_code == 429


def test_the_admins_door_and_the_pages_are_locked_together():
    fail(path="/login/")

    assert sign_in(GOOD, path="/admin/login/").status_code == 429


def test_the_name_is_free_from_elsewhere_and_the_address_for_other_names(bob: Api):
    bob.user.set_password(GOOD)
    bob.user.save()
    fail()

    assert sign_in(GOOD, address=ELSEWHERE).status_code == 302
    assert sign_in(GOOD, name="bob").status_code == 302


def test_a_name_that_nobody_has_is_locked_like_any_other():
    assert fail(name="nobody") == [200] * (LIMIT - 1) + [429]


def test_a_client_cannot_choose_its_address():
    fail()

    assert sign_in(GOOD, **{"X-Forwarded-For": ELSEWHERE}).status_code == 429


def test_behind_a_trusted_proxy_the_client_counts_and_not_the_proxy(settings: Settings):
    settings.TRUSTED_PROXIES = 1
    for number in range(LIMIT):
        sign_in(f"wrong {number}", **{"X-Forwarded-For": "198.51.100.1"})

    assert sign_in(GOOD, **{"X-Forwarded-For": "198.51.100.1"}).status_code == 429
    assert sign_in(GOOD, **{"X-Forwarded-For": "198.51.100.2"}).status_code == 302
    assert sign_in(GOOD, **{"X-Forwarded-For": "nonsense"}).status_code == 302


def test_tries_while_locked_out_do_not_lengthen_it():
    fail()
    before = AccessAttempt.objects.get().attempt_time

    fail(3)

    assert AccessAttempt.objects.get().attempt_time == before


def test_time_forgives():
    fail()
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=15, seconds=1))

    assert sign_in(GOOD).status_code == 302


def test_a_success_forgets_what_failed_before():
    fail(LIMIT - 1)
    assert sign_in(GOOD).status_code == 302

    assert fail(LIMIT - 1) == [200] * (LIMIT - 1)


def test_what_is_kept_of_a_try_holds_no_password_and_no_token_of_a_form():
    fail(2)

    [kept] = AccessAttempt.objects.values()
    assert "wrong" not in str(kept)
    assert "/jobs/1/" not in str(kept)
    assert (kept["username"], kept["ip_address"]) == ("ada", HERE)


def test_the_lock_concerns_no_token_and_no_session(ada: Api):
    browser = ada.browser()
    fail()

    assert ada.get("/budget").status_code == 200
    assert browser.get("/", REMOTE_ADDR=HERE).status_code == 200


def test_code_without_a_request_signs_in_as_ever():
    assert Client().login(username="ada", password=GOOD)
