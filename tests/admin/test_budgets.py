"""Caps in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.models import InferenceBudget
from tests.admin.paths import BUDGETS
from tests.support import html
from tests.support.expect import assert_nothing_written
from tests.support.rows import budget, give_budget

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


def test_a_cap_can_be_changed_and_nothing_else(operator: Client, ada: Api):
    give_budget(ada.user, daily_tokens=100, spent_tokens=70, active_jobs=2)
    before = budget(ada.user)

    response = operator.post(
        f"{BUDGETS}{ada.user_id}/change/",
        {"daily_tokens": "5000", "spent_tokens": "0", "active_jobs": "0", "user": "1"},
    )

    assert response.status_code == 302
    assert budget(ada.user) == {**before, "daily_tokens": 5000}


def test_saving_a_cap_writes_no_other_column(operator: Client, ada: Api):
    give_budget(ada.user, spent_tokens=70)

    with CaptureQueriesContext(connection) as captured:
        operator.post(f"{BUDGETS}{ada.user_id}/change/", {"daily_tokens": "5000"})

    updates = [query["sql"] or "" for query in captured]
    (update,) = [sql for sql in updates if sql.startswith('UPDATE "budgets_inferencebudget"')]
    assert "daily_tokens" in update
    assert "spent_tokens" not in update


@pytest.mark.parametrize("cap", ["-1", str(2**63), "many", ""])
def test_a_cap_that_makes_no_sense_is_refused_in_words(operator: Client, ada: Api, cap: str):
    give_budget(ada.user)

    with assert_nothing_written():
        response = operator.post(f"{BUDGETS}{ada.user_id}/change/", {"daily_tokens": cap})

    assert response.status_code == 200
    assert "Please correct the error below." in html.read(response).words


def test_a_cap_can_be_set_before_the_first_job(operator: Client, ada: Api):
    response = operator.post(
        f"{BUDGETS}add/", {"user": str(ada.user_id), "daily_tokens": "12", "spent_tokens": "5"}
    )

    assert response.status_code == 302
    row = InferenceBudget.objects.get(user=ada.user)
    assert (row.daily_tokens, row.spent_tokens, row.active_jobs) == (12, 0, 0)


def test_a_second_budget_for_a_user_is_refused_in_words(operator: Client, ada: Api):
    give_budget(ada.user, daily_tokens=100)

    with assert_nothing_written():
        response = operator.post(f"{BUDGETS}add/", {"user": str(ada.user_id), "daily_tokens": "12"})

    assert "already exists" in html.read(response).words


def test_a_budget_is_never_deleted(operator: Client, ada: Api):
    give_budget(ada.user)

    with assert_nothing_written():
        response = operator.post(f"{BUDGETS}{ada.user_id}/delete/", {"post": "yes"})

    assert response.status_code == 403


def test_budgets_are_found_by_user(operator: Client, ada: Api, bob: Api):
    give_budget(ada.user, daily_tokens=111)
    give_budget(bob.user, daily_tokens=222)

    words = html.read(operator.get(BUDGETS, {"q": "ada"})).words

    assert "111" in words
    assert "222" not in words
