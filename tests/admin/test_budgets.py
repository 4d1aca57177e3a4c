"""Caps in the admin: changed with a reason only, one by one or many, and on record for good."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets import asking, caps
from budgets.models import CapChange, GroupAllowance, InferenceBudget
from tests.admin.conftest import staff
from tests.admin.paths import ALLOWANCES, BUDGETS, CHANGES
from tests.support import html
from tests.support.clients import Api
from tests.support.expect import assert_nothing_written
from tests.support.rows import budget, give_budget, today
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db

ON_RECORD = ("what", "name", "was", "became", "why", "by_name")


def page_of(user: Api) -> str:
    return f"{BUDGETS}{user.user_id}/change/"


def changes() -> list[tuple[Any, ...]]:
    return list(CapChange.objects.order_by("pk").values_list(*ON_RECORD))


def act(client: Client, action: str, *users: Api, path: str = BUDGETS, **form: str) -> Answer:
    """Choose users in the list, an action, and fill in what it asks for."""
    chosen = {"action": action, "_selected_action": [str(user.user_id) for user in users]}
    return client.post(path, {**chosen, "confirmed": "yes", **form}, follow=True)


@pytest.fixture
def researchers(ada: Api) -> Group:
    """A group with an allowance, and Ada in it."""
    group = Group.objects.create(name="researchers")
    GroupAllowance.objects.create(group=group, daily_tokens=777)
    ada.user.groups.add(group)
    return group


def test_a_cap_is_changed_with_a_reason_and_nothing_else_is(operator: Client, ada: Api):
    give_budget(ada.user, daily_tokens=100, spent_tokens=70, active_jobs=2)
    before = budget(ada.user)

    response = operator.post(
        page_of(ada),
        {
            "daily_tokens": "5000",
            "why": " They asked. ",
            "spent_tokens": "0",
            "active_jobs": "0",
            "user": "1",
        },
    )

    assert response.status_code == 302
    assert budget(ada.user) == {**before, "daily_tokens": 5000, "is_own": True}
    assert changes() == [("cap", "ada", 100, 5000, "They asked.", "operator")]


def test_changing_a_cap_writes_no_other_column(operator: Client, ada: Api):
    give_budget(ada.user, spent_tokens=70)

    with CaptureQueriesContext(connection) as captured:
        operator.post(page_of(ada), {"daily_tokens": "5000", "why": "More."})

    updates = [query["sql"] or "" for query in captured]
    (update,) = [sql for sql in updates if sql.startswith('UPDATE "budgets_inferencebudget"')]
    assert "daily_tokens" in update
    assert "spent_tokens" not in update


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"daily_tokens": "-1", "why": "x"}, "greater than or equal to 0"),
        ({"daily_tokens": str(2**63), "why": "x"}, "less than or equal to"),
        ({"daily_tokens": "many", "why": "x"}, "Enter a whole number."),
        ({"daily_tokens": "", "why": "x"}, "This field is required."),
        ({"daily_tokens": "5"}, "This field is required."),
        ({"daily_tokens": "5", "why": "  "}, "This field is required."),
        ({"daily_tokens": "5", "why": "x" * 501}, "at most 500 characters"),
        ({"daily_tokens": "100", "why": "x"}, "This is the user's own cap already."),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_in_words(
    operator: Client, ada: Api, form: dict[str, str], told: str
):
    give_budget(ada.user, daily_tokens=100)

    with assert_nothing_written():
        response = operator.post(page_of(ada), form)

    assert response.status_code == 200
    assert told in html.read(response).words
    assert changes() == []


def test_a_cap_can_be_set_before_the_first_job(operator: Client, ada: Api):
    response = operator.post(
        f"{BUDGETS}add/",
        {"user": str(ada.user_id), "daily_tokens": "12", "why": "New here.", "spent_tokens": "5"},
    )

    assert response.status_code == 302
    row = InferenceBudget.objects.get(user=ada.user)
    assert (row.daily_tokens, row.is_own, row.spent_tokens, row.active_jobs) == (12, True, 0, 0)
    assert changes() == [("cap", "ada", None, 12, "New here.", "operator")]


def test_a_second_budget_for_a_user_is_refused_in_words(operator: Client, ada: Api):
    give_budget(ada.user, daily_tokens=100)
    form = {"user": str(ada.user_id), "daily_tokens": "12", "why": "x"}

    with assert_nothing_written():
        response = operator.post(f"{BUDGETS}add/", form)

    assert "already exists" in html.read(response).words


def test_a_budget_is_never_deleted(operator: Client, ada: Api):
    give_budget(ada.user)

    with assert_nothing_written():
        response = operator.post(f"{BUDGETS}{ada.user_id}/delete/", {"post": "yes"})

    assert response.status_code == 403


def test_the_list_tells_what_counts_today_and_where_it_comes_from(
    operator: Client, researchers: Group, ada: Api, bob: Api
):
    give_budget(ada.user, is_own=False, daily_tokens=100, spent_tokens=70, reserved_tokens=7)
    past = {"spent_tokens": 99, "reserved_tokens": 9, "day_utc": today() - timedelta(days=1)}
    give_budget(bob.user, daily_tokens=222, **past)
    carol = Api.of_new("carol")
    give_budget(carol.user, is_own=False, daily_tokens=333)

    words = html.read(operator.get(BUDGETS)).words

    assert "carol 333 default 0 0 0" in words
    assert "bob 222 set on the user 0 0 0" in words
    assert "ada 777 group 70 7 0" in words


def test_the_list_costs_as_much_for_many_as_for_one(operator: Client, ada: Api):
    give_budget(ada.user)
    with recorded() as few:
        operator.get(BUDGETS)
    for number in range(20):
        give_budget(Api.of_new(f"user {number}").user)

    with recorded() as many:
        operator.get(BUDGETS)

    assert many == few
    budgets = ["SELECT budgets_inferencebudget"] * 2
    assert many == ["SELECT django_session", "SELECT auth_user", *budgets]


def test_budgets_are_found_by_user(operator: Client, ada: Api, bob: Api):
    give_budget(ada.user, daily_tokens=111)
    give_budget(bob.user, daily_tokens=222)

    assert "222" not in html.read(operator.get(BUDGETS, {"q": " ada "})).words
    assert "111" in html.read(operator.get(BUDGETS, {"q": "ada"})).words
    assert "111" not in html.read(operator.get(BUDGETS, {"q": "nobody"})).words


def test_many_caps_are_set_to_one(operator: Client, ada: Api, bob: Api):
    give_budget(ada.user, daily_tokens=50)
    give_budget(bob.user, daily_tokens=100)

    response = act(operator, "change_caps", ada, bob, daily_tokens="50", why="All alike.")

    assert "1 changed; 1 had nothing to change." in html.read(response).words
    assert budget(bob.user)["daily_tokens"] == 50
    assert changes() == [("cap", "bob", 100, 50, "All alike.", "operator")]


def test_many_caps_are_raised_by_a_factor(operator: Client, researchers: Group, ada: Api, bob: Api):
    give_budget(ada.user, is_own=False, daily_tokens=100)
    give_budget(bob.user, daily_tokens=101)

    act(operator, "change_caps", ada, bob, factor="1.5", why="Exam week.")

    assert set(changes()) == {
        ("cap", "ada", None, 1165, "Exam week.", "operator"),
        ("cap", "bob", 101, 151, "Exam week.", "operator"),
    }


def test_no_factor_raises_a_cap_beyond_the_largest(operator: Client, ada: Api):
    give_budget(ada.user, daily_tokens=caps.LARGEST_CAP - 1)

    act(operator, "change_caps", ada, factor="1000", why="x")

    assert budget(ada.user)["daily_tokens"] == caps.LARGEST_CAP


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"why": "x"}, "one of the two"),
        ({"daily_tokens": "5", "factor": "2", "why": "x"}, "one of the two"),
        ({"factor": "-1", "why": "x"}, "greater than or equal to 0"),
        ({"factor": "NaN", "why": "x"}, "Enter a number."),
        ({"factor": "1e9", "why": "x"}, "no more than"),
        ({"daily_tokens": "5"}, "This field is required."),
        ({"daily_tokens": str(2**62 + 1), "why": "x"}, "less than or equal to"),
    ],
)
def test_a_change_of_many_that_makes_no_sense_asks_again(
    operator: Client, ada: Api, form: dict[str, str], told: str
):
    give_budget(ada.user)

    with assert_nothing_written():
        page = html.read(act(operator, "change_caps", ada, **form))

    assert told in page.words
    assert page.fields["_selected_action"] == str(ada.user_id)
    assert page.fields.get("daily_tokens", "") == form.get("daily_tokens", "")


def test_a_day_begins_again(operator: Client, ada: Api, bob: Api):
    give_budget(ada.user, spent_tokens=70, reserved_tokens=20, active_jobs=2)
    give_budget(bob.user, spent_tokens=0)

    response = act(operator, "reset_today", ada, bob, why="Their loop was ours.")

    assert "1 changed; 1 had nothing to change." in html.read(response).words
    assert budget(ada.user)["spent_tokens"] == 20
    assert budget(ada.user)["forgiven_tokens"] == 50
    assert changes() == [("reset", "ada", 70, 20, "Their loop was ours.", "operator")]


def test_a_user_goes_back_to_the_default(operator: Client, ada: Api, settings):
    give_budget(ada.user, daily_tokens=50)

    act(operator, "follow_default", ada, why="The exam is over.")

    assert budget(ada.user)["is_own"] is False
    assert budget(ada.user)["daily_tokens"] == settings.DAILY_TOKEN_CAP
    assert changes() == [("default", "ada", 50, None, "The exam is over.", "operator")]


@pytest.mark.parametrize("action", ["change_caps", "reset_today", "follow_default"])
def test_an_action_asks_first(operator: Client, ada: Api, action: str):
    give_budget(ada.user, daily_tokens=1234)
    chosen = {"action": action, "_selected_action": str(ada.user_id)}

    with assert_nothing_written():
        page = html.read(operator.post(BUDGETS, chosen))

    assert "ada: 1,234 tokens a day (set on the user)" in page.words
    assert {"why", "confirmed", "_selected_action"} <= set(page.fields)
    assert "This field is required." not in page.words


def test_a_change_of_many_is_bounded_and_says_so(operator: Client, monkeypatch):
    monkeypatch.setattr(asking, "MOST_ROWS", 2)
    users = [Api.of_new(f"user {number}") for number in range(3)]
    for user in users:
        give_budget(user.user, daily_tokens=10)

    asked = act(operator, "change_caps", *users)
    act(operator, "change_caps", *users, daily_tokens="20", why="x")

    assert "These are the first 2 of them." in html.read(asked).words
    assert [budget(user.user)["daily_tokens"] for user in users] == [10, 20, 20]


def test_a_group_is_given_an_allowance(operator: Client):
    group = Group.objects.create(name="guests")

    response = operator.post(
        f"{ALLOWANCES}add/", {"group": str(group.pk), "daily_tokens": "9", "why": "Trial."}
    )

    assert response.status_code == 302
    assert GroupAllowance.objects.get().daily_tokens == 9
    assert changes() == [("group", "guests", None, 9, "Trial.", "operator")]


def test_a_groups_allowance_is_changed_with_a_reason(operator: Client, researchers: Group):
    path = f"{ALLOWANCES}{researchers.pk}/change/"

    refused = operator.post(path, {"daily_tokens": "8"})
    same = operator.post(path, {"daily_tokens": "777", "why": "x"})
    operator.post(path, {"daily_tokens": "8", "why": "Less.", "group": "99"})

    assert "This field is required." in html.read(refused).words
    assert "This is the group's allowance already." in html.read(same).words
    assert changes() == [("group", "researchers", 777, 8, "Less.", "operator")]


def test_a_groups_allowance_is_taken_away_with_a_reason(operator: Client, researchers: Group):
    chosen = {"action": "take_away", "_selected_action": str(researchers.pk)}

    asked = html.read(operator.post(ALLOWANCES, chosen))
    operator.post(ALLOWANCES, {**chosen, "confirmed": "yes", "why": "Over."})

    assert "researchers: 777 tokens a day" in asked.words
    assert not GroupAllowance.objects.exists()
    assert changes() == [("group", "researchers", 777, None, "Over.", "operator")]


def test_an_allowance_does_not_vanish_without_a_reason(operator: Client, researchers: Group):
    operator.post(f"{ALLOWANCES}{researchers.pk}/delete/", {"post": "yes"})
    operator.post(f"/admin/auth/group/{researchers.pk}/delete/", {"post": "yes"})

    assert GroupAllowance.objects.exists()


def test_the_audit_trail_is_read_and_never_written(operator: Client, ada: Api, bob: Api):
    for user in (ada, bob):
        give_budget(user.user, daily_tokens=1)
        act(operator, "change_caps", user, daily_tokens="2", why=f"Of <{user.user.username}>.")
    entry = CapChange.objects.first()
    assert entry is not None
    page, before = f"{CHANGES}{entry.pk}/", changes()

    answers = [
        operator.post(f"{CHANGES}add/", {"what": "cap"}),
        operator.post(f"{page}change/", {"why": "Another."}),
        operator.post(f"{page}delete/", {"post": "yes"}),
    ]
    operator.post(CHANGES, {"action": "delete_selected", "_selected_action": str(entry.pk)})

    assert [answer.status_code for answer in answers] == [403] * 3
    assert changes() == before
    assert "Of <ada>." in html.read(operator.get(f"{page}change/")).words
    assert "Of <bob>." in html.read(operator.get(CHANGES)).words
    assert "Of <bob>." not in html.read(operator.get(CHANGES, {"q": "ada"})).words
    assert "Of <" not in html.read(operator.get(CHANGES, {"q": "nobody"})).words


def test_who_may_only_look_changes_nothing(ada: Api, researchers: Group):
    give_budget(ada.user, daily_tokens=1)
    watcher = staff("watcher", "view_inferencebudget", "view_groupallowance", "view_capchange")

    with assert_nothing_written():
        for action in ("change_caps", "reset_today", "follow_default"):
            act(watcher, action, ada, daily_tokens="2", why="x")
        watcher.post(page_of(ada), {"daily_tokens": "2", "why": "x"})
        act(watcher, "take_away", path=ALLOWANCES, _selected_action=str(researchers.pk), why="x")

    assert changes() == []
    assert GroupAllowance.objects.exists()
    for path in (BUDGETS, page_of(ada), ALLOWANCES, f"{ALLOWANCES}{researchers.pk}/change/"):
        page = html.read(watcher.get(path))
        assert "why" not in page.fields
        assert not [tag for tag, named in page.tags if named.get("name") == "action"]


def test_a_budget_leads_to_its_users_usage_jobs_and_changes(operator: Client, ada: Api):
    give_budget(ada.user)

    links = html.read(operator.get(page_of(ada))).links()

    for link in ("/admin/usage/?user=ada", "/admin/reports/reportjob/?q=ada", f"{CHANGES}?q=ada"):
        assert link in links
        assert operator.get(link).status_code == 200
