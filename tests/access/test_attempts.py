"""Many bad tokens from one address: they are told to stay away, and nobody else is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

import pytest
from django.test import Client

from access import attempts
from tests.support.expect import assert_problem, body_of
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.http import HttpResponse

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
BAD = "wrong"


def guess(token: str = BAD, *, address: str = "192.0.2.1", **headers: str) -> HttpResponse:
    """A request with a bad token."""
    named = {"Authorization": f"Bearer {token}", **headers}
    return cast("HttpResponse", Client(REMOTE_ADDR=address).get("/budget", headers=named))


def exhaust(**where: str) -> None:
    """As many bad tokens as are answered like any other."""
    for number in range(attempts.LIMIT):
        assert guess(f"wrong-{number}", **where).status_code == 401


def test_after_many_bad_tokens_an_address_is_told_when_to_come_back():
    exhaust()

    refused = guess()

    assert assert_problem(refused, 429, "too_many_attempts") == {}
    assert 1 <= int(refused.headers["Retry-After"]) <= attempts.WINDOW_S


def test_a_browser_is_told_on_a_page():
    exhaust()

    refused = guess(Accept="text/html")

    assert refused.status_code == 429
    assert refused.headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("token", ["é", "a" * 300])
def test_what_can_be_no_token_counts_too_and_asks_no_database(token: str):
    exhaust()

    with recorded() as statements:
        assert guess(token).status_code == 429

    assert statements == []


def test_a_good_token_is_served_at_the_same_address_and_begins_the_count_again(ada: Api):
    exhaust()
    assert guess().status_code == 429

    good = guess(ada.token)

    assert good.status_code == 200
    assert body_of(good)["daily_tokens"] > 0
    assert guess().status_code == 401


def test_other_addresses_and_those_without_a_token_are_not_concerned():
    exhaust()

    assert guess(address="192.0.2.2").status_code == 401
    without = Client(REMOTE_ADDR="192.0.2.1").get("/budget")
    assert without.status_code == 401


def test_time_forgives(monkeypatch: pytest.MonkeyPatch):
    exhaust()
    monkeypatch.setattr(attempts, "time", Later(attempts.WINDOW_S + 1))

    assert guess().status_code == 401


class Later:
    """A clock that is ahead."""

    def __init__(self, seconds: float) -> None:
        self.now = time.monotonic() + seconds

    def monotonic(self) -> float:
        """That clock."""
        return self.now


def test_the_counts_are_bounded():
    for number in range(attempts.ADDRESSES + 10):
        attempts.note(f"address {number}")

    assert attempts.how_many() == attempts.ADDRESSES


def test_a_client_cannot_choose_its_address():
    exhaust()

    assert guess(**{"X-Forwarded-For": "192.0.2.99"}).status_code == 429
