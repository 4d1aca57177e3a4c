"""Who may spend how much: on the user, by the group, by default; and each change in the books."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Group, User

from budgets import caps
from budgets.models import CapChange, GroupAllowance, InferenceBudget
from reports import acceptance, invariants, transitions
from reports.acceptance import Accepted
from reports.errors import BudgetExhausted, ExceedsDailyBudget
from reports.models import ReportJob
from reports.provider import Completion, Usage
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import budget, give_budget, job_in, today
from tests.support.threads import begin, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
on_real_connections = pytest.mark.django_db(transaction=True)


@pytest.fixture
def eve(db: None) -> User:
    """The operator."""
    return User.objects.create_user("eve")


def allow(user: User, *, name: str, daily_tokens: int) -> Group:
    """Make the user a member of a group with an allowance."""
    group = Group.objects.create(name=name)
    user.groups.add(group)
    GroupAllowance.objects.create(group=group, daily_tokens=daily_tokens)
    return group


def accept(api: Api, number: int, *, prompt: str = "a" * 40) -> Accepted:
    """A prompt of ten tokens under a key of its own."""
    return acceptance.accept(api.user_id, key=f"key-{number}", prompt=prompt)


def changes() -> list[tuple[object, ...]]:
    """All changes in their order."""
    columns = "what", "name", "was", "became", "why", "by_name"
    return list(CapChange.objects.order_by("pk").values_list(*columns))


@pytest.mark.parametrize("has_row", [True, False])
def test_a_new_user_has_the_largest_allowance_of_the_groups(
    ada: Api, settings: Settings, *, has_row: bool
):
    settings.DAILY_TOKEN_CAP = 5
    if has_row:
        InferenceBudget.objects.create(user=ada.user, daily_tokens=5, is_own=False)
    allow(ada.user, name="readers", daily_tokens=20)
    allow(ada.user, name="writers", daily_tokens=30)

    envelopes = [accept(ada, number).envelope for number in range(3)]
    with assert_nothing_written(), pytest.raises(BudgetExhausted) as refused:
        accept(ada, 4)

    assert [envelope.remaining_tokens for envelope in envelopes] == [20, 10, 0]
    assert {envelope.daily_tokens for envelope in envelopes} == {30}
    assert refused.value.members["daily_tokens"] == 30


@pytest.mark.parametrize("has_row", [True, False])
def test_an_allowance_may_be_smaller_than_the_default(ada: Api, *, has_row: bool):
    if has_row:
        accept(ada, 1, prompt="a")
    allow(ada.user, name="guests", daily_tokens=9)

    with assert_nothing_written(), pytest.raises(ExceedsDailyBudget) as refused:
        accept(ada, 2)

    assert refused.value.members["daily_tokens"] == 9


def test_what_is_set_on_the_user_goes_before_the_groups(ada: Api):
    allow(ada.user, name="writers", daily_tokens=1000)
    give_budget(ada.user, daily_tokens=10)

    accept(ada, 1)
    with assert_nothing_written(), pytest.raises(BudgetExhausted):
        accept(ada, 2)


def test_who_leaves_a_group_has_the_default_again(ada: Api, settings: Settings):
    settings.DAILY_TOKEN_CAP = 10
    group = allow(ada.user, name="writers", daily_tokens=1000)
    accept(ada, 1)

    ada.user.groups.remove(group)

    with assert_nothing_written(), pytest.raises(BudgetExhausted):
        accept(ada, 2)


@pytest.mark.parametrize("has_row", [True, False])
def test_every_answer_tells_what_the_group_allows(ada: Api, *, has_row: bool):
    if has_row:
        InferenceBudget.objects.create(user=ada.user, daily_tokens=5, is_own=False)
    allow(ada.user, name="writers", daily_tokens=100)
    assert body_of(ada.get("/budget"))["daily_tokens"] == 100

    answers = [ada.post("a" * 40), ada.post("a" * 40), ada.get("/budget")]

    assert {answer.headers["RateLimit-Policy"] for answer in answers} == {
        '"daily-tokens";q=100;w=86400'
    }
    assert all(answer.headers["RateLimit"].startswith('"daily-tokens";r=90;') for answer in answers)
    problem = ada.post("a" * 444, key="other")
    assert assert_problem(problem, 422, "exceeds_daily_budget")["daily_tokens"] == 100


def test_groups_of_others_allow_nothing(ada: Api, bob: Api, settings: Settings):
    settings.DAILY_TOKEN_CAP = 10
    allow(bob.user, name="writers", daily_tokens=1000)

    accept(ada, 1)
    with assert_nothing_written(), pytest.raises(BudgetExhausted):
        accept(ada, 2)


@on_real_connections
def test_the_first_requests_of_a_group_member_do_not_pass_each_other(ada: Api, settings: Settings):
    settings.DAILY_TOKEN_CAP = 1000
    allow(ada.user, name="guests", daily_tokens=45)

    answers = together(lambda number: accept(ada, number), range(20))

    assert sum(isinstance(answer, Accepted) for answer in answers) == 4
    assert sum(isinstance(answer, BudgetExhausted) for answer in answers) == 16


@pytest.mark.parametrize("has_row", [True, False])
def test_a_cap_is_set_with_its_reason(ada: Api, eve: User, *, has_row: bool):
    if has_row:
        give_budget(ada.user, daily_tokens=500, spent_tokens=7)

    assert caps.set_cap(ada.user_id, daily_tokens=0, by=eve, why=" too many questions ")

    row = budget(ada.user)
    assert (row["daily_tokens"], row["is_own"]) == (0, True)
    assert row["spent_tokens"] == (7 if has_row else 0)
    was = 500 if has_row else None
    assert changes() == [("cap", "ada", was, 0, "too many questions", "eve")]


def test_the_default_comes_back_with_its_reason(ada: Api, eve: User, settings: Settings):
    settings.DAILY_TOKEN_CAP = 10
    give_budget(ada.user, daily_tokens=500)

    assert caps.follow_default(ada.user_id, by=eve, why="the trial is over")

    row = budget(ada.user)
    assert (row["daily_tokens"], row["is_own"]) == (10, False)
    assert changes() == [("default", "ada", 500, None, "the trial is over", "eve")]


def test_an_allowance_is_given_changed_and_taken_with_its_reason(eve: User):
    group = Group.objects.create(name="writers")

    for tokens in (10, 20, None):
        assert caps.set_allowance(group.pk, daily_tokens=tokens, by=eve, why="a trial")

    assert not GroupAllowance.objects.exists()
    assert changes() == [
        ("group", "writers", was, became, "a trial", "eve")
        for was, became in [(None, 10), (10, 20), (20, None)]
    ]


def test_today_begins_again_except_for_what_is_reserved(ada: Api, eve: User):
    give_budget(ada.user, daily_tokens=30, spent_tokens=0)
    first, second = (ReportJob.objects.get(pk=accept(ada, number).job_id) for number in (1, 2))
    held = transitions.claim(first.pk)
    assert held is not None
    assert transitions.succeed(held, Completion("text", usage=Usage(3, 4)))

    assert caps.reset_today(ada.user_id, by=eve, why="our fault")

    row = budget(ada.user)
    assert (row["spent_tokens"], row["reserved_tokens"], row["forgiven_tokens"]) == (10, 10, 7)
    assert changes() == [("reset", "ada", 17, 10, "our fault", "eve")]
    assert body_of(ada.get("/budget"))["remaining_tokens"] == 20
    transitions.cancel(second)
    assert budget(ada.user)["spent_tokens"] == 0
    assert list(invariants.check()) == []


def test_a_new_day_forgets_what_was_forgiven(ada: Api, eve: User):
    yesterday = today() - timedelta(days=1)
    give_budget(ada.user, spent_tokens=30, forgiven_tokens=5, day_utc=yesterday)

    assert not caps.reset_today(ada.user_id, by=eve, why="our fault")
    accept(ada, 1)

    row = budget(ada.user)
    assert (row["spent_tokens"], row["reserved_tokens"], row["forgiven_tokens"]) == (10, 10, 0)


@pytest.mark.parametrize(
    "again",
    [
        lambda ada, eve: caps.set_cap(ada.user_id, daily_tokens=500, by=eve, why="a trial"),
        lambda ada, eve: caps.reset_today(ada.user_id, by=eve, why="a trial"),
        lambda _, eve: caps.set_allowance(
            Group.objects.get_or_create(name="writers")[0].pk,
            daily_tokens=None,
            by=eve,
            why="a trial",
        ),
    ],
)
def test_what_is_so_already_is_no_change(ada: Api, eve: User, again: Callable[[Api, User], bool]):
    give_budget(ada.user, daily_tokens=500, spent_tokens=7, reserved_tokens=7)

    assert again(ada, eve) is False

    assert changes() == []


def test_who_follows_the_default_already_does(ada: Api, eve: User):
    accept(ada, 1)

    assert caps.follow_default(ada.user_id, by=eve, why="a trial") is False
    assert changes() == []


@pytest.mark.parametrize("why", ["", " \n", "x" * 501])
@pytest.mark.parametrize("daily_tokens", [5])
def test_a_change_without_a_reason_is_none(ada: Api, eve: User, why: str, daily_tokens: int):
    with assert_nothing_written(), pytest.raises(ValueError, match="a reason has"):
        caps.set_cap(ada.user_id, daily_tokens=daily_tokens, by=eve, why=why)


@pytest.mark.parametrize("daily_tokens", [-1, 2**62 + 1])
def test_an_allowance_has_bounds(ada: Api, eve: User, daily_tokens: int):
    with assert_nothing_written(), pytest.raises(ValueError, match="an allowance is from"):
        caps.set_cap(ada.user_id, daily_tokens=daily_tokens, by=eve, why="a trial")


def test_the_books_outlive_those_who_are_in_them(ada: Api, eve: User):
    caps.set_cap(ada.user_id, daily_tokens=7, by=eve, why="a trial")

    ada.user.delete()
    eve.delete()

    assert changes() == [("cap", "ada", None, 7, "a trial", "eve")]


@on_real_connections
def test_changes_at_once_follow_each_other(ada: Api, eve: User):
    def change(tokens: int) -> bool:
        return caps.set_cap(ada.user_id, daily_tokens=tokens, by=eve, why="a trial")

    assert together(change, range(10)) == [True] * 10

    written = [(was, became) for _, _, was, became, _, _ in changes()]
    assert written[0][0] is None
    assert [became for _, became in written[:-1]] == [was for was, _ in written[1:]]
    assert budget(ada.user)["daily_tokens"] == written[-1][1]


@on_real_connections
def test_a_day_that_begins_again_among_endings_keeps_its_books(
    ada: Api, eve: User, settings: Settings
):
    settings.MAX_ACTIVE_JOBS_PER_USER = 100
    jobs = [accept(ada, number).job_id for number in range(30)]

    def end(number: int) -> None:
        held = transitions.claim(jobs[number])
        assert held is not None
        transitions.succeed(held, Completion("text", usage=Usage(number, 1)))

    with ThreadPoolExecutor(1) as pool:
        resets = begin(
            pool,
            lambda: [
                caps.reset_today(ada.user_id, by=eve, why=f"reset {number}") for number in range(20)
            ],
        )
        ended = together(end, range(30), threads=8)
        resets.result(30)

    assert ended == [None] * 30
    assert list(invariants.check()) == []
    row = budget(ada.user)
    assert row["spent_tokens"] + row["forgiven_tokens"] == sum(range(30)) + 30  # type: ignore[operator]


def test_a_row_made_by_hand_is_the_users_own(ada: Api):
    allow(ada.user, name="writers", daily_tokens=1000)
    job_in("queued", user=ada.user)

    assert budget(ada.user)["is_own"] is True
