"""The daily envelope: what fits, to the token, at any concurrency, and what GET /budget tells."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from budgets.envelope import Envelope, estimate_tokens
from budgets.models import InferenceBudget
from reports import acceptance, transitions
from reports.acceptance import Accepted
from reports.errors import (
    BudgetExhausted,
    ExceedsDailyBudget,
    TooManyActiveJobs,
    Unavailable,
)
from reports.models import ReportJob
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import budget, give_budget, job_in, today
from tests.support.threads import together

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
on_real_connections = pytest.mark.django_db(transaction=True)


def accept(api: Api, number: int, *, prompt: str = "a" * 40) -> Accepted:
    """A prompt of ten tokens under a key of its own."""
    return acceptance.accept(api.user_id, key=f"key-{number}", prompt=prompt)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 1), ("a", 1), ("aaa", 1), ("a" * 7, 1), ("a" * 8, 2), ("a" * 8000, 2000), ("é" * 8, 2)],
)
def test_an_estimate_is_a_quarter_of_the_characters(text: str, tokens: int):
    assert estimate_tokens(text) == tokens


@on_real_connections
@pytest.mark.timeout(120)
def test_of_300_at_once_exactly_those_that_fit_are_accepted(ada: Api, settings: Settings):
    settings.DAILY_TOKEN_CAP = 379
    settings.MAX_ACTIVE_JOBS_PER_USER = 1000

    answers = together(lambda number: accept(ada, number), range(300))

    accepted = [answer for answer in answers if isinstance(answer, Accepted)]
    refused = [answer for answer in answers if isinstance(answer, BudgetExhausted)]
    assert (len(accepted), len(refused)) == (37, 263)
    assert {job.pk for job in ReportJob.objects.all()} == {answer.job_id for answer in accepted}
    assert budget(ada.user) == {
        "user_id": ada.user_id,
        "daily_tokens": 379,
        "is_own": False,
        "spent_tokens": 370,
        "reserved_tokens": 370,
        "forgiven_tokens": 0,
        "active_jobs": 37,
        "day_utc": today(),
    }
    left = sorted(answer.envelope.remaining_tokens for answer in accepted)
    assert left == list(range(9, 379, 10))


@on_real_connections
def test_of_50_at_once_no_more_are_active_than_allowed(ada: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 7

    answers = together(lambda number: accept(ada, number), range(50))

    assert sum(isinstance(answer, Accepted) for answer in answers) == 7
    assert sum(isinstance(answer, TooManyActiveJobs) for answer in answers) == 43
    assert budget(ada.user)["active_jobs"] == ReportJob.objects.count() == 7


@on_real_connections
def test_the_first_reservations_of_a_new_day_do_not_pass_each_other(ada: Api):
    yesterday = today() - timedelta(days=1)
    give_budget(ada.user, daily_tokens=45, spent_tokens=45, day_utc=yesterday)

    answers = together(lambda number: accept(ada, number), range(20))

    assert sum(isinstance(answer, Accepted) for answer in answers) == 4
    assert budget(ada.user)["spent_tokens"] == 40
    assert budget(ada.user)["day_utc"] == today()


@pytest.mark.parametrize("has_row", [True, False])
def test_a_reservation_fits_to_the_token(ada: Api, settings: Settings, *, has_row: bool):
    settings.DAILY_TOKEN_CAP = 10
    if has_row:
        give_budget(ada.user, daily_tokens=10, spent_tokens=0)

    accepted = accept(ada, 1)
    with assert_nothing_written(), pytest.raises(BudgetExhausted):
        accept(ada, 2, prompt="a")

    assert accepted.envelope == Envelope(daily_tokens=10, spent_tokens=10, day_utc=today())


@pytest.mark.parametrize("has_row", [True, False])
@pytest.mark.parametrize("cap", [0, 9])
def test_what_exceeds_the_whole_allowance_is_refused(
    ada: Api, settings: Settings, cap: int, *, has_row: bool
):
    settings.DAILY_TOKEN_CAP = cap
    if has_row:
        give_budget(ada.user, daily_tokens=cap, spent_tokens=0)

    with assert_nothing_written(), pytest.raises(ExceedsDailyBudget) as refused:
        accept(ada, 1)

    assert refused.value.members["remaining_tokens"] == cap
    assert InferenceBudget.objects.exists() is has_row


def test_a_new_row_has_the_cap_of_its_day(ada: Api, settings: Settings):
    settings.DAILY_TOKEN_CAP = 2**40
    accept(ada, 1)
    settings.DAILY_TOKEN_CAP = 1

    accept(ada, 2)

    assert budget(ada.user)["daily_tokens"] == 2**40
    assert budget(ada.user)["spent_tokens"] == 20


def test_a_cap_of_the_largest_number_does_not_overflow(ada: Api):
    give_budget(ada.user, daily_tokens=2**63 - 1, spent_tokens=2**63 - 12)

    accept(ada, 1)
    with pytest.raises(BudgetExhausted):
        accept(ada, 2)

    assert budget(ada.user)["spent_tokens"] == 2**63 - 2


def test_a_cap_lowered_below_what_is_spent_leaves_nothing_and_never_less(ada: Api):
    give_budget(ada.user, daily_tokens=100, spent_tokens=80)
    InferenceBudget.objects.update(daily_tokens=50)

    response = ada.post("hello")

    members = assert_problem(response, 429, "budget_exhausted")
    assert members["remaining_tokens"] == 0
    assert response.headers["RateLimit"].startswith('"daily-tokens";r=0;')
    assert body_of(ada.get("/budget"))["remaining_tokens"] == 0


def test_a_release_gives_room_again(ada: Api):
    give_budget(ada.user, daily_tokens=10, spent_tokens=0)
    first = accept(ada, 1)
    transitions.cancel(ReportJob.objects.get(pk=first.job_id))

    accept(ada, 2)

    assert budget(ada.user)["spent_tokens"] == 10
    assert budget(ada.user)["active_jobs"] == 1


def test_a_release_never_goes_below_nothing(ada: Api):
    job = job_in("queued", user=ada.user)
    give_budget(ada.user, spent_tokens=3, active_jobs=0)

    transitions.cancel(job)

    assert budget(ada.user)["spent_tokens"] == 0
    assert budget(ada.user)["active_jobs"] == 0


def test_jobs_of_yesterday_still_count_as_active(ada: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 1
    job_in("running", user=ada.user, day_utc=today() - timedelta(days=1))

    with assert_nothing_written(), pytest.raises(TooManyActiveJobs):
        accept(ada, 1)


def test_a_new_day_starts_the_count_again(ada: Api):
    yesterday = today() - timedelta(days=1)
    give_budget(ada.user, daily_tokens=100, spent_tokens=100, day_utc=yesterday)

    accepted = accept(ada, 1)

    assert accepted.envelope == Envelope(daily_tokens=100, spent_tokens=10, day_utc=today())
    assert budget(ada.user)["spent_tokens"] == 10
    assert budget(ada.user)["day_utc"] == today()


def test_a_budget_row_that_is_a_day_ahead_never_goes_back(ada: Api):
    tomorrow = today() + timedelta(days=1)
    give_budget(ada.user, spent_tokens=0, day_utc=tomorrow)

    with assert_nothing_written(), pytest.raises(Unavailable):
        accept(ada, 1)


def test_users_have_budgets_of_their_own(ada: Api, bob: Api):
    give_budget(bob.user, daily_tokens=0)

    accept(ada, 1)

    assert budget(bob.user)["spent_tokens"] == 0


@pytest.mark.parametrize("path", ["/budget", "/budget/"])
def test_the_budget_tells_today(ada: Api, path: str):
    give_budget(ada.user, daily_tokens=100, spent_tokens=30)

    response = ada.get(path)

    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["RateLimit"].startswith('"daily-tokens";r=70;t=')
    assert body_of(response) == {
        "daily_tokens": 100,
        "spent_tokens": 30,
        "remaining_tokens": 70,
        "day_utc": today().isoformat(),
        "resets_at": f"{today() + timedelta(days=1)}T00:00:00Z",
    }
    assert reverse("budget") == "/budget"


def test_the_budget_of_another_day_is_told_as_today(ada: Api):
    before = {"daily_tokens": 100, "spent_tokens": 30, "day_utc": today() - timedelta(days=9)}
    give_budget(ada.user, **before)

    with assert_nothing_written():
        told = body_of(ada.get("/budget"))

    assert told["spent_tokens"] == 0
    assert told["remaining_tokens"] == 100
    assert told["day_utc"] == today().isoformat()


def test_the_budget_of_a_user_without_a_row_is_the_default(ada: Api, settings: Settings):
    settings.DAILY_TOKEN_CAP = 1234

    with assert_nothing_written():
        told = body_of(ada.get("/budget"))

    assert told["daily_tokens"] == told["remaining_tokens"] == 1234
    assert told["spent_tokens"] == 0


def test_the_budget_knows_get_only(ada: Api):
    response = ada.request("POST", "/budget")

    assert assert_problem(response, 405, "method_not_allowed") == {}
    assert response.headers["Allow"] == "GET, HEAD, OPTIONS"
