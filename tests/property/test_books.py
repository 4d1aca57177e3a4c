"""Any order of accepts, claims, endings, sweeps and midnights keeps two independent books equal."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from hypothesis import HealthCheck, settings as profile
from hypothesis.stateful import run_state_machine_as_test

from reports import runner
from tests.property.books import Books
from tests.property.ledger import CAP, MOST_ACTIVE, OUTPUT_TOKENS
from tests.property.steps import ENDS, LIFE
from tests.support.provider import Provider

# Hypothesis takes up to five minutes to make a failing example small.
pytestmark = [pytest.mark.property, pytest.mark.timeout(600)]

# The same examples every time: a test of the gate must not be red by chance.
RUN = profile(
    max_examples=50,
    stateful_step_count=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
# A book that is never written in is never wrong.
OFTEN_MET = {"accepted", "replayed", "budget_exhausted", "claimed", "stale claim refused"} | {
    *("succeeded", "failed", "put off", "cancelled queued", "cancelled running", "run"),
    *("swept lost", "swept expired", "erased", "ended on another day"),
    *("today begun again", "allowed by a group"),
}


@pytest.fixture
def books(transactional_db, broker, settings, django_user_model):
    settings.DAILY_TOKEN_CAP = CAP
    settings.MAX_ACTIVE_JOBS_PER_USER = MOST_ACTIVE
    settings.INFERENCE_MAX_OUTPUT_TOKENS = OUTPUT_TOKENS
    settings.SWEEP_INTERVAL_S = 3600  # on a slow machine no row is overdue between two steps
    ada, bob, Books.operator = map(django_user_model.objects.create_user, ("ada", "bob", "eve"))
    Books.user_ids = [ada.pk, bob.pk]
    group = Group.objects.create(name="readers")
    group.user_set.add(bob)
    Books.group_id = group.pk
    Books.met.clear()
    with Provider() as Books.provider:
        settings.INFERENCE_URL = Books.provider.url
        runner.config.cache_clear()
        yield Books
        runner.config.cache_clear()


def test_two_books_agree_through_a_life_that_meets_everything(books):
    machine = books()

    for step in LIFE:
        machine.take(step)
        machine.check()

    assert {word for word, times in books.met.items() if times} == ENDS


def test_two_books_agree_whatever_happens_in_whatever_order(books):
    run_state_machine_as_test(books, settings=RUN)

    assert OFTEN_MET - {word for word, times in books.met.items() if times} == set()
