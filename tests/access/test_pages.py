"""The page of one's own tokens: made, shown once, revoked after a question."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.test import Client
from django.utils import timezone

from access import pages
from access.models import Token
from tests.support import html

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db
PATH = "/tokens/"


@pytest.fixture
def browser(ada: Api) -> Client:
    """Ada's, with her one token gone, which has no name."""
    Token.objects.all().delete()
    client = Client()
    client.force_login(ada.user)
    return client


def make(browser: Client, name: str = "laptop", days: str = "30") -> Answer:
    """Send the form."""
    return browser.post(PATH, {"name": name, "days": days})


def test_a_token_is_made_and_works_and_is_shown_once(browser: Client, ada: Api):
    made = make(browser)

    [token] = re.findall(r'<code id="token">([0-9a-f]{64})</code>', made.content.decode())
    assert made.status_code == 200
    assert {"private", "no-store"} <= set(made.headers["Cache-Control"].split(", "))
    assert ada.get("/budget", Authorization=f"Bearer {token}").status_code == 200
    again = html.read(browser.get(PATH))
    assert not again.has("token")
    assert token not in again.words
    assert "laptop" in again.words
    assert Token.objects.get().digest not in browser.get(PATH).content.decode()


@pytest.mark.parametrize(
    ("days", "lifetime"), [("7", timedelta(days=7)), ("365", timedelta(days=365)), ("", None)]
)
def test_a_token_ends_as_chosen(browser: Client, days: str, lifetime: timedelta | None):
    make(browser, days=days)

    token = Token.objects.get()
    if lifetime is None:
        assert token.expiry is None
    else:
        assert token.expiry is not None
        assert abs(token.expiry - timezone.now() - lifetime) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("name", "days"),
    [
        ("", "30"),
        ("   ", "30"),
        ("a" * 101, "30"),
        ("a\x00b", "30"),
        ("a", "31"),
        ("a", "-1"),
        ("a", "x"),
    ],
)
def test_a_form_that_does_not_fit_makes_none_and_keeps_what_was_written(
    browser: Client, name: str, days: str
):
    response = make(browser, name, days)

    page = html.read(response)
    assert response.status_code == 400
    assert "Give the token a name" in page.words
    assert page.attributes("name")["aria-invalid"] == "true"
    assert page.fields["name"].replace("\ufffd", "\x00") == name
    assert not Token.objects.exists()


def test_a_name_is_text(browser: Client):
    response = make(browser, "<script>alert(1)</script>")

    assert b"<script>alert" not in response.content
    assert "<script>alert(1)</script>" in html.read(response).words


def test_the_list_says_when_a_token_was_made_used_and_ends(browser: Client, ada: Api):
    Token.objects.create(ada.user, timedelta(days=-1), name="old")
    Token.objects.create(ada.user, name="new", last_used_at=timezone.now())

    words = html.read(browser.get(PATH)).words

    assert words.index("new") < words.index("old")
    assert words.count("never used") == 1
    assert words.count("ends when it is revoked") == 1
    assert "ended" in words
    assert f"last used {timezone.now():%-d %b %Y}" in words


def test_revoking_asks_first_and_then_the_token_is_nobodys(browser: Client, ada: Api):
    row, token = Token.objects.create(ada.user, name="laptop")
    path = f"{PATH}{row.pk}/revoke/"

    asked = browser.get(path)
    assert "laptop" in html.read(asked).words
    assert Token.objects.filter(pk=row.pk).exists()
    done = browser.post(path, follow=True)

    assert done.redirect_chain == [(PATH, 303)]
    assert "laptop is revoked." in html.read(done).words
    assert ada.get("/budget", Authorization=f"Bearer {token}").status_code == 401
    assert browser.post(path).status_code == 404


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_tokens_of_others_do_not_exist(browser: Client, bob: Api, method: str):
    foreign = Token.objects.get(user=bob.user)

    response = browser.generic(method, f"{PATH}{foreign.pk}/revoke/")

    assert response.status_code == 404
    assert bob.token[:8] not in browser.get(PATH).content.decode()
    assert Token.objects.filter(pk=foreign.pk).exists()


def test_there_are_not_more_than_a_page_can_show(browser: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "MOST_TOKENS", 2)
    for _ in range(2):
        assert make(browser).status_code == 200

    refused = make(browser)

    assert refused.status_code == 409
    assert "Revoke one" in html.read(refused).words
    assert Token.objects.count() == 2


@pytest.mark.parametrize("path", ["/tokens", PATH])
def test_the_page_is_there_with_a_final_slash_and_without(browser: Client, path: str):
    assert "You have none." in html.read(browser.get(path)).words


@pytest.mark.parametrize("path", [PATH, f"{PATH}1/revoke/"])
def test_a_stranger_signs_in_first(path: str):
    response = Client().get(path)

    assert response.status_code == 302
    assert response.headers["Location"] == f"/login/?next={path}"


@pytest.mark.parametrize("path", [PATH, f"{PATH}1/revoke/"])
def test_a_form_from_elsewhere_does_nothing(ada: Api, path: str):
    response = ada.browser().post(path, {"name": "x", "days": "30"})

    assert response.status_code == 403
    assert Token.objects.count() == 1


def test_a_token_opens_no_page(ada: Api):
    assert ada.get(PATH).status_code == 302
