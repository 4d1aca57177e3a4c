"""The usage page: days and users in charts and numbers, and a range that is asked for kindly."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError

from operations import usage as page
from reports import usage
from reports.models import UsageDay
from tests.admin.conftest import staff
from tests.admin.paths import USAGE
from tests.support import html
from tests.support.rows import job_in, today
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db


def used(user: Api, *, days_ago: int, **numbers: int) -> None:
    """A day of a user that is over."""
    none = dict.fromkeys(usage.SUMS, 0)
    day = today() - timedelta(days=days_ago)
    UsageDay.objects.create(user=user.user, day_utc=day, **{**none, **numbers})


def read(client: Client, **asked: str) -> str:
    response = client.get(USAGE, asked)
    assert response.status_code == 200
    return html.read(response).words


def bars(response: Answer) -> list[str | None]:
    return [named["class"] for tag, named in html.read(response).tags if tag == "rect"]


def test_days_are_shown_with_their_sums(operator: Client, ada: Api, bob: Api):
    day = today() - timedelta(days=2)
    numbers = {"reserved_tokens": 1000, "settled_tokens": 700, "released_tokens": 300}
    used(ada, days_ago=2, jobs=3, unclear_ends=1, unclear_tokens=100, **numbers)
    used(bob, days_ago=2, jobs=1, reserved_tokens=11, settled_tokens=11)
    used(bob, days_ago=40, jobs=7, reserved_tokens=77)
    job_in("queued", user=ada.user)

    words = read(operator)

    assert f"{day} 4 1,011 711 300 1 100" in words
    assert f"{today()} 1 10 0 0 0 0" in words
    assert "in all 5 1,021 711 300 1 100" in words
    assert "1 ended unclear: 100 tokens were given back that the provider may bill." in words


def test_users_are_ranked_by_what_they_were_charged(operator: Client, ada: Api, bob: Api):
    used(ada, days_ago=1, jobs=1, settled_tokens=5)
    used(bob, days_ago=1, jobs=2, settled_tokens=9)
    used(ada, days_ago=2, jobs=4, settled_tokens=1)

    words = read(operator)

    assert "bob 2 0 9 0 0 0 ada 5 0 6 0 0 0" in words


def test_one_users_days_are_shown_alone(operator: Client, ada: Api, bob: Api):
    used(ada, days_ago=1, jobs=3, reserved_tokens=30, settled_tokens=21)
    used(bob, days_ago=1, jobs=100, reserved_tokens=999)

    words = read(operator, user="ada")

    assert "in all 3 30 21 0 0 0" in words
    assert "999" not in words
    assert "By user" not in words


def test_a_range_is_kept_to(operator: Client, ada: Api):
    for days_ago in (4, 5, 6):
        used(ada, days_ago=days_ago, jobs=days_ago)
    day = str(today() - timedelta(days=5))

    words = read(operator, since=day, until=day)

    assert "in all 5 0 0" in words
    assert words.count(f"{day} 5 0 0") == 1


def test_nothing_used_is_an_empty_chart_and_zeros(operator: Client):
    words = read(operator)

    assert "0 jobs reserved 0 tokens" in words
    assert f"{today()} 0 0 0 0 0 0" in words


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"since": "2026-02-30"}, "Enter a valid date."),
        ({"until": "yesterday"}, "Enter a valid date."),
        ({"since": "2020-02-02", "until": "2020-02-01"}, "This day comes after the last one."),
        ({"since": "2020-01-01"}, "92 days at most are shown at once."),
        ({"until": "9999-12-31"}, "This day is still to come."),
        ({"since": "9999-12-01", "until": "9999-12-31"}, "This day is still to come."),
        ({"until": "0001-01-01", "since": ""}, "This day is too long ago."),
        ({"user": "nobody"}, "There is no user of this name."),
        ({"user": "a\x00"}, "Null characters are not allowed."),
    ],
)
def test_a_range_that_makes_no_sense_is_refused_kindly(
    operator: Client, asked: dict[str, str], told: str
):
    response = operator.get(USAGE, asked)

    page = html.read(response)
    assert response.status_code == 400
    assert told in page.words
    assert "jobs reserved" not in page.words
    assert page.fields["since"] or "since" in asked


def test_a_range_that_takes_too_long_is_told(operator: Client, monkeypatch):
    def by_day(*_: object, **__: object) -> None:
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr(usage, "by_day", by_day)

    response = operator.get(USAGE)

    assert page.TOO_LONG in html.read(response).words


def test_every_number_of_a_chart_is_drawn_and_told(operator: Client, ada: Api):
    numbers = {"reserved_tokens": 90, "settled_tokens": 50, "released_tokens": 40}
    used(ada, days_ago=1, jobs=3, unclear_ends=2, unclear_tokens=10, **numbers)

    response = operator.get(USAGE)

    assert bars(response).count("bar is-solid") == 2 + 2  # of the day and the user, two legends
    words = html.read(response).words
    for told in ("settled 50", "released 30", "released, may be billed 10", "unclear ends 2"):
        assert told in words


def test_it_takes_the_permission_to_see_budgets(db: None):
    assert staff("other", "view_reportjob").get(USAGE).status_code == 403
    assert staff("keeper", "view_inferencebudget").get(USAGE).status_code == 200


def test_it_costs_the_same_for_any_number_of_users(operator: Client, ada: Api):
    used(ada, days_ago=1, settled_tokens=1)
    with recorded() as few:
        read(operator)
    for number in range(30):
        used(type(ada).of_new(f"user {number}"), days_ago=1 + number % 3, settled_tokens=number)

    with recorded() as many:
        words = read(operator)

    assert many == few
    assert f"the {page.MOST_USERS} whose days were charged most" in words
