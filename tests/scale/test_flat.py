"""A million rows feel like none: every statement finds the few that it wants by an index.

What is looked at is what PostgreSQL did, in pages and rows, and not the plan that it announced.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest
from django.db.models.functions import Now

from reports import census, inflight, invariants, retention, sweep, transitions, usage
from reports.errors import ErrorCode
from reports.models import ReportJob
from reports.provider import Call, Completion, Failure
from tests.admin.paths import BUDGETS, FRONT, JOBS, USAGE, listed
from tests.scale.looks import FEW_PAGES, KEY, UNIQUE, again_and_again, flat
from tests.scale.million import JOBS as MANY, QUEUED, RUNNING, USERS
from tests.support.expect import body_of
from tests.support.plans import run_plans
from tests.support.rows import today

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.test import Client
    from pytest_django import Settings

    from reports.transitions import Claim
    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
QUEUE, PUBLISH = "reportjob_queue_idx", "reportjob_publish_idx"
EXPIRY = "reportjob_expiry_idx"
LEASE, HISTORY = "reportjob_lease_idx", "reportjob_history_idx"
FAILURES, ENDINGS = "reportjob_failures_idx", "reportjob_endings_idx"
RETENTION, FAILED_HISTORY = "reportjob_retention_idx", "reportjob_failed_history_idx"
STATUSES = ["queued", "running", "succeeded", "failed"]
A_PAGE = 21
# A person's 140 jobs may all be looked at for a page, by whichever index.
OF_A_PERSON = 600
# All that wait or run: whoever looks for some of them may look at each, however many have ended.
ACTIVE = QUEUED + RUNNING
# A page of the admin counts to 2000, of which one in ten may be of the status that is asked for.
OF_AN_OPERATOR = 3000
# The hour of the backlog, a day at one job in five seconds, and the day before until it is closed.
OF_A_DAY = 80_000
_keys = count()


@pytest.mark.parametrize("who", ["whale", "person"])
def test_an_accept_touches_a_few_pages(who: str, whale: Api, person: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 1000
    api = {"whale": whale, "person": person}[who]

    with flat():
        again_and_again(lambda _: assert_is(202, api.post(key=f"new {next(_keys)}")))


def test_a_replay_finds_its_key(whale: Api):
    whale.post(key="twice")

    with flat(by={UNIQUE}):
        again_and_again(lambda _: assert_is(202, whale.post(key="twice")))


def test_a_refusal_reads_why_in_a_few_pages(person: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 1

    with flat():
        again_and_again(lambda _: assert_is(429, person.post(key=f"new {next(_keys)}")))


@pytest.mark.parametrize("status", ["running", "succeeded", "failed"])
def test_a_poll_finds_its_row(whale: Api, status: str):
    job = ReportJob.objects.filter(status=status, erased_at=None).order_by("-pk")[5]
    ReportJob.objects.filter(pk=job.pk).update(user=whale.user)

    with flat(by={KEY}):
        again_and_again(lambda _: assert_is(200, whale.get(f"/reports/{job.pk}")))


def test_a_poll_behind_a_backlog_counts_to_a_thousand(person: Api):
    assert_is(202, person.post(key="the last in the queue"))
    job = ReportJob.objects.get(user=person.user, idempotency_key="the last in the queue")

    with flat(by={KEY, QUEUE}, rows=1000 + FEW_PAGES):
        again_and_again(lambda _: assert_is(200, person.get(f"/reports/{job.pk}")))


def test_a_claim_finds_its_row(waiting: Iterator[ReportJob]):
    with flat(by={KEY}):
        again_and_again(lambda _: assert_that(transitions.claim(next(waiting).pk)))


@pytest.mark.parametrize(
    "finish",
    [
        lambda held: transitions.succeed(held, Completion("a text")),
        lambda held: transitions.fail(held, Failure(ErrorCode.PROVIDER_5XX, 503, "busy")),
        lambda held: transitions.postpone(held, wait_s=5),
        lambda held: transitions.break_off(held, ErrorCode.INTERNAL_ERROR),
    ],
    ids=["succeed", "fail", "postpone", "break_off"],
)
def test_a_worker_finds_the_row_that_it_ends(
    claimed: Callable[[], Claim], finish: Callable[[Claim], bool]
):
    with flat(by={KEY}):
        again_and_again(lambda _: assert_that(finish(claimed())))


def test_a_cancel_and_an_erasure_find_their_row(person: Api, waiting: Iterator[ReportJob]):
    def cancel_and_erase(_: int) -> None:
        job = next(waiting)
        assert transitions.cancel(job)
        assert transitions.erase(job)

    with flat(by={KEY}):
        again_and_again(cancel_and_erase)


def test_a_worker_watches_its_calls_by_their_keys(claimed: Callable[[], Claim]):
    with ExitStack() as calls:
        for _ in range(50):
            held = claimed()
            calls.enter_context(inflight.carrying(held, Call(str(held.job_id), 0)))

        with flat(pages=50 * 6, rows=2 * RUNNING):
            again_and_again(lambda _: assert_is(0, inflight.abort_lost()))


def test_a_list_reads_its_page_and_no_more(whale: Api):
    def three_pages(_: int) -> None:
        path = "/reports"
        for _page in range(3):
            path = body_of(whale.get(path))["next"].removeprefix("http://testserver")

    with flat(rows=2 * A_PAGE, by={HISTORY}):
        again_and_again(three_pages)


def test_a_page_deep_in_a_history_costs_no_more(whale: Api):
    deep = ReportJob.objects.owned_by(whale.user_id).order_by("-created_at", "-pk")[150_000]
    cursor = f"{int(deep.created_at.timestamp() * 1_000_000)}.0"
    browser = whale.browser()

    with flat(rows=2 * A_PAGE, by={HISTORY, KEY}):
        assert_is(200, whale.get(f"/reports?cursor={cursor}"))
        assert_is(200, browser.get("/"))
        assert_is(200, browser.get("/", {"before": str(deep.pk)}))


@pytest.mark.parametrize(
    ("status", "index", "rows"),
    [
        ("succeeded", HISTORY, 2 * A_PAGE),
        ("failed", FAILED_HISTORY, 2 * A_PAGE),
        ("queued", QUEUE, ACTIVE),
        ("running", LEASE, ACTIVE),
    ],
)
def test_a_list_of_one_status_reads_its_page_however_few_there_are(
    whale: Api, status: str, index: str, rows: int
):
    deep = ReportJob.objects.owned_by(whale.user_id).order_by("-created_at", "-pk")[150_000]
    browser = whale.browser()

    with flat(rows=rows, pages=FEW_PAGES + rows // A_PAGE, by={index, KEY}):
        assert_is(200, whale.get(f"/reports?status={status}"))
        assert_is(200, browser.get("/", {"status": status}))
        assert_is(200, browser.get("/", {"status": status, "before": str(deep.pk)}))


@pytest.mark.parametrize("status", ["", *STATUSES])
def test_a_person_with_few_jobs_reads_those_at_most(person: Api, status: str):
    with flat(rows=ACTIVE + OF_A_PERSON, pages=OF_A_PERSON):
        assert_is(200, person.get(f"/reports?status={status}" if status else "/reports"))
        assert_is(200, person.browser().get("/", {"status": status}))


def test_the_sweep_looks_at_what_is_due(waiting: Iterator[ReportJob], settings: Settings):
    due = [next(waiting).pk for _ in range(10)]
    ReportJob.objects.filter(pk__in=due).update(publish_again_at=Now())
    late = [next(waiting).pk for _ in range(5)]
    ReportJob.objects.filter(pk__in=late).update(created_at=Now() - timedelta(hours=2))
    lost = [job.pk for job in ReportJob.objects.running()[:5]]
    ReportJob.objects.filter(pk__in=lost).update(lease_expires_at=Now())

    # Whether the broker still holds the backlog, the sweep tells by the number of queued jobs.
    by = {LEASE, QUEUE, EXPIRY, PUBLISH, RETENTION, KEY}
    with flat(rows=ACTIVE, pages=1000, by=by):
        swept = sweep.sweep()

    assert (swept.lost, swept.expired) == (5, 5)


def test_retention_takes_its_batch_from_the_old_end(million_jobs: None, settings: Settings):
    settings.RETENTION_DAYS, settings.KEY_RETENTION_DAYS = 20, 40
    most = retention.BATCH

    # Each of the erased rows is written anew, with an entry in each of its indexes.
    with flat(rows=2 * most, pages=FEW_PAGES * most, by={RETENTION, KEY}):
        assert retention.erase_some(ReportJob.objects.out_of_retention(), most=most) == most
    with flat(rows=2 * most, pages=FEW_PAGES * most, by={KEY}):
        assert retention.delete_some(ReportJob.objects.out_of_key_retention(), most=most) == most


def test_a_day_is_summed_from_its_own_jobs(million_jobs: None):
    with flat(rows=OF_A_DAY, pages=OF_A_DAY, by={KEY}):
        assert usage.by_day(today() - timedelta(days=30), today())[today()].jobs > 0


def test_metrics_count_what_waits_and_runs(million_jobs: None):
    with flat(rows=ACTIVE, pages=1000, among={QUEUE, PUBLISH, LEASE, RETENTION}):
        found = census.take()

    assert (found.queued, found.running) == (QUEUED, RUNNING)


def test_operators_read_large_tables_by_an_index_only(operator: Client):
    newest = listed(operator.get(JOBS))[0]
    yesterday = str(today() - timedelta(days=1))
    looks: list[tuple[dict[str, str], set[str]]] = [
        ({}, {KEY}),
        ({"p": "2"}, {KEY}),
        ({"status__exact": "queued"}, {QUEUE, PUBLISH, KEY}),
        ({"status__exact": "running"}, {LEASE}),
        ({"status__exact": "succeeded"}, {KEY}),
        ({"status__exact": "failed"}, {KEY, FAILURES}),
        ({"error_code__exact": "worker_lost"}, {FAILURES}),
        ({"error_code__exact": "internal_error"}, {FAILURES}),
        ({"day": yesterday}, {KEY}),
        ({"day": "2020-01-01"}, {KEY}),
        ({"day": yesterday, "error_code__exact": "worker_lost"}, {KEY, FAILURES}),
        ({"q": newest}, {KEY}),
        ({"q": "user 1"}, {HISTORY}),
        ({"q": "user 1", "status__exact": "failed"}, {FAILED_HISTORY}),
    ]

    for query, indexes in looks:
        with flat(rows=ACTIVE + 10 * OF_AN_OPERATOR, pages=OF_AN_OPERATOR, among=indexes):
            assert_is(200, operator.get(JOBS, query))


def test_operators_find_a_persons_jobs_and_budget(operator: Client):
    with flat(rows=OF_AN_OPERATOR, pages=OF_AN_OPERATOR):
        assert_is(200, operator.get(JOBS, {"q": "user 7"}))
        assert_is(200, operator.get(BUDGETS))
        assert_is(200, operator.get(BUDGETS, {"q": "user 7"}))


@pytest.mark.parametrize("key", ["key 123456", "no such thing"])
def test_operators_find_a_key_by_a_look_for_each_user(operator: Client, key: str):
    with flat(rows=2 * USERS, pages=2 * USERS, by={UNIQUE}, whole={"auth_user"}):
        assert_is(200, operator.get(JOBS, {"q": key}))


def test_the_operators_front_page_reads_the_active_and_the_last_hour(operator: Client):
    # The day of all users is the sum of their budget rows.
    with flat(
        rows=ACTIVE,
        pages=1000,
        among={QUEUE, PUBLISH, LEASE, RETENTION, ENDINGS},
        whole={"budgets_inferencebudget"},
    ):
        assert_is(200, operator.get(FRONT))


def test_the_usage_page_reads_the_days_that_are_open(operator: Client):
    with flat(rows=OF_A_DAY, pages=OF_A_DAY, by={KEY}):
        assert_is(200, operator.get(USAGE))


def test_the_promises_hold_and_are_checked_in_a_few_passes(million_jobs: None):
    with run_plans() as plans:
        faults = list(invariants.check())

    assert faults == []
    # No check looks at a row twice, or asks once a row.
    assert all(plan.rows < 1.1 * MANY for plan in plans), plans


def assert_is(expected: int, found: Answer | int) -> None:
    """A number, or the status of an answer."""
    assert getattr(found, "status_code", found) == expected


def assert_that(outcome: object) -> None:
    """It happened."""
    assert outcome
