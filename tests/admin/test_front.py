"""The admin's front page: what an operator asks first, by permission, and with parts away."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import redis
from django.db import OperationalError, connection
from django.utils import timezone

from budgets.rows import statements_within
from operations import hour
from reports import census, dispatch
from reports.errors import ErrorCode
from telemetry import relay
from tests.admin.conftest import staff
from tests.admin.paths import FRONT
from tests.support import html
from tests.support.rows import give_budget, job_in, today
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


def words_of(client: Client) -> str:
    response = client.get(FRONT)
    assert response.status_code == 200
    return html.read(response).words


def test_it_tells_what_waits_and_what_runs(operator: Client, ada: Api):
    for age_s in (5, 7520):
        job_in("queued", user=ada.user, age_s=age_s)
    job_in("running", user=ada.user)
    job_in("running", user=ada.user, age_s=90)

    words = words_of(operator)

    assert "Waiting 2 the oldest for 2 h 5 min" in words
    assert "Running 2 1 past their lease" in words


def test_it_tells_failures_of_the_last_hour_by_code(operator: Client, ada: Api):
    for age_s in (1, 600, 1500):
        job_in("failed", user=ada.user, age_s=age_s)
    job_in("failed", user=ada.user, error_code="worker_lost", http_status=500)
    job_in("failed", user=ada.user, age_s=3700, error_code="queue_expired")
    job_in("succeeded", user=ada.user, age_s=75)

    words = words_of(operator)

    assert "provider_5xx 3 worker_lost 1 Jobs that ended" in words
    assert "queue_expired" not in words
    assert "unwell 75 % of 4 calls failed in the last hour; last success 1 min" in words


def test_endings_are_counted_in_their_five_minutes(ada: Api):
    for age_s in (0, 1, 320, 900):
        job_in("succeeded", user=ada.user, age_s=age_s)
    job_in("failed", user=ada.user, error_code="cancelled", http_status=499)

    found = hour.read()

    chart = found.chart()
    starts = [found.since + hour.STEP * place for place in range(hour.STEPS)]
    expected = [0] * hour.STEPS
    for age_s in (0, 1, 320, 900):
        born = timezone.now() - timedelta(seconds=age_s)
        expected[max(place for place, start in enumerate(starts) if start <= born)] += 1
    assert list(chart.series[0].values) == expected
    assert [sum(series.values) for series in chart.series] == [4, 0, 0, 1]


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_is_of_one_kind(code: ErrorCode):
    kinds = {"provider": "failed at the provider", "cancelled": "cancelled"}

    assert hour.kind_of(code) == kinds.get(code.partition("_")[0], "failed on our side")


@pytest.mark.parametrize(
    ("succeeded", "failed", "health"),
    [(0, 0, "not asked"), (0, 1, "no answer"), (1, 1, "unwell"), (2, 1, "well")],
)
def test_the_providers_health_in_a_word(ada: Api, succeeded: int, failed: int, health: str):
    for status, count in (("succeeded", succeeded), ("failed", failed)):
        for _ in range(count):
            job_in(status, user=ada.user)
    job_in("failed", user=ada.user, error_code="cancelled", http_status=499)

    assert hour.read().health == health


def test_more_endings_than_are_read_are_told(operator: Client, ada: Api, monkeypatch):
    monkeypatch.setattr(hour, "MOST_ENDINGS", 2)
    for age_s in range(3):
        job_in("succeeded", user=ada.user, age_s=age_s)

    assert hour.read().succeeded == 2
    assert "only the newest endings are" in words_of(operator)


def test_it_tells_todays_tokens_of_everybody(operator: Client, ada: Api, bob: Api):
    give_budget(ada.user, spent_tokens=1200, reserved_tokens=200)
    give_budget(bob.user, spent_tokens=34)
    yesterday = today() - timedelta(days=1)
    give_budget(type(ada).of_new("carol").user, spent_tokens=5, day_utc=yesterday)

    assert "Tokens today 1,234 of 2 users, 200 of them reserved" in words_of(operator)


def test_it_tells_when_a_worker_was_seen(operator: Client, broker: redis.Redis):
    broker.set(dispatch.SEEN_KEY, int(time.time()) - 65)
    broker.sadd(relay.PROCESSES, "here.1")
    told = '{"role": "worker", "worker_slots": 100, "calls_in_flight": 7}'
    broker.set(f"{relay.PROCESS}here.1", told)

    words = words_of(operator)
    broker.delete(dispatch.SEEN_KEY, relay.PROCESSES, f"{relay.PROCESS}here.1")

    assert re.search(r"Workers seen 1 min \d+ s ago, 7 of 100 slots in use", words)
    assert "Workers none not seen within the last minute" in words_of(operator)


def test_a_broker_that_is_away_takes_only_its_own_part(operator: Client, ada: Api, monkeypatch):
    nobody = redis.Redis(host="127.0.0.1", port=9, socket_connect_timeout=0.2)
    monkeypatch.setattr(relay, "broker", lambda: nobody)
    job_in("queued", user=ada.user)

    words = words_of(operator)

    assert "Workers unknown the broker does not answer" in words
    assert "Waiting 1" in words


def test_a_part_that_takes_too_long_leaves_the_others(operator: Client, ada: Api, monkeypatch):
    def take_for_ever() -> None:
        raise OperationalError("canceling statement due to statement timeout")

    give_budget(ada.user, spent_tokens=55)
    monkeypatch.setattr(census, "take", take_for_ever)
    monkeypatch.setattr(hour, "read", take_for_ever)

    words = words_of(operator)

    assert words.count("the database took too long") == 3
    assert "Tokens today 55" in words


@pytest.mark.parametrize(
    ("permission", "shown", "hidden"),
    [
        ("view_reportjob", "Waiting", "Tokens today"),
        ("view_inferencebudget", "Tokens today", "Waiting"),
        ("view_user", "Users", "Now"),
    ],
)
def test_each_part_takes_its_permission(db: None, permission: str, shown: str, hidden: str):
    words = words_of(staff("somebody", permission))

    assert shown in words
    assert hidden not in words


def test_nobody_sees_it_from_outside(ada: Api, operator: Client):
    operator.logout()

    assert operator.get(FRONT).status_code == 302
    operator.force_login(ada.user)
    assert operator.get(FRONT).status_code == 302


def test_it_costs_the_same_for_any_number_of_jobs(operator: Client, ada: Api):
    with recorded() as few:
        words_of(operator)
    for status in ("queued", "running", "succeeded", "failed"):
        for _ in range(5):
            job_in(status, user=ada.user)

    with recorded() as many:
        words_of(operator)

    assert many == few
    asked = [statement for statement in many if statement.endswith("reports_reportjob")]
    assert len(asked) <= 8


def test_a_statement_is_broken_off_in_time(settings):
    if not settings.IS_POSTGRESQL:
        pytest.skip("SQLite knows no such limit")
    with (
        pytest.raises(OperationalError, match="timeout"),
        statements_within(10),
        connection.cursor() as cursor,
    ):
        cursor.execute("SELECT pg_sleep(5)")
