"""The list of jobs and the page of one: what operators find, and that history is never edited."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from budgets.paging import BoundedPaginator
from reports.ids import lowest_at
from reports.models import Status
from tests.admin.conftest import staff
from tests.admin.paths import JOBS, listed, page_of
from tests.support import html
from tests.support.clients import Api
from tests.support.expect import assert_nothing_written
from tests.support.rows import job_in, today
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

pytestmark = pytest.mark.django_db


def test_jobs_are_listed_newest_first_with_their_users(operator: Client, ada: Api, bob: Api):
    jobs = [job_in("failed", user=user) for user in (ada.user, bob.user)]

    response = operator.get(JOBS)

    words = html.read(response).words
    assert listed(response) == sorted((str(job.pk) for job in jobs), reverse=True)
    assert all(word in words for word in ("ada", "bob", "Failed", "provider_5xx", "503"))


def test_a_job_is_shown_with_its_facts(operator: Client, ada: Api):
    job = job_in("failed", user=ada.user, idempotency_key="the <key>")

    page = html.read(operator.get(page_of(job)))

    for fact in ("ada", "the <key>", "provider_5xx", "503", "It answered 503.", str(job.claim_id)):
        assert fact in page.words


def test_the_list_costs_as_much_for_many_users_as_for_one(operator: Client, ada: Api):
    job_in("queued", user=ada.user)
    with recorded() as few:
        operator.get(JOBS)
    for number in range(20):
        job_in("queued", user=Api.of_new(f"user {number}").user)

    with recorded() as many:
        operator.get(JOBS)

    assert many == few
    assert many == [
        "SELECT django_session",
        "SELECT auth_user",
        "SELECT reports_reportjob",
        "SELECT reports_reportjob",
        "SELECT auth_user",
    ]


def test_the_list_is_never_counted_whole(operator: Client, ada: Api):
    job_in("queued", user=ada.user)

    with CaptureQueriesContext(connection) as captured:
        operator.get(JOBS)
        operator.get(JOBS, {"q": "nothing like it"})
        operator.get(JOBS, {"status__exact": "queued"})

    counts = [query["sql"] or "" for query in captured if "COUNT(" in (query["sql"] or "")]
    assert len(counts) == 3
    assert all("LIMIT 2000" in count for count in counts)


def test_a_list_that_is_cut_says_so(operator: Client, ada: Api, monkeypatch):
    jobs = [job_in("queued", user=ada.user) for _ in range(4)]
    assert "Only the newest" not in html.read(operator.get(JOBS)).words
    monkeypatch.setattr(BoundedPaginator, "limit", 3)

    response = operator.get(JOBS)

    assert "Only the newest 3 are listed." in html.read(response).words
    assert str(jobs[-1].pk) in listed(response)


@pytest.mark.parametrize("status", Status.values)
def test_jobs_can_be_filtered_by_status(operator: Client, ada: Api, status: str):
    jobs = {name: job_in(name, user=ada.user) for name in Status.values}

    assert listed(operator.get(JOBS, {"status__exact": status})) == [str(jobs[status].pk)]


def test_jobs_can_be_filtered_by_error_code(operator: Client, ada: Api):
    job_in("failed", user=ada.user)
    lost = job_in("failed", user=ada.user, error_code="worker_lost", http_status=500)

    assert listed(operator.get(JOBS, {"error_code__exact": "worker_lost"})) == [str(lost.pk)]


def test_jobs_can_be_filtered_by_the_day_of_their_reservation(operator: Client, ada: Api):
    yesterday = today() - timedelta(days=1)
    midnight = datetime.combine(today(), datetime.min.time(), tzinfo=UTC)

    def born(minutes: int, day: date) -> str:
        """A job whose id was made by a clock that was apart from the database's."""
        job_id = UUID(int=lowest_at(midnight + timedelta(minutes=minutes)).int + 1)
        return str(job_in("queued", user=ada.user, id=job_id, day_utc=day).pk)

    early, late = born(-5, today()), born(5, yesterday)

    assert listed(operator.get(JOBS, {"day": str(today())})) == [early]
    assert listed(operator.get(JOBS, {"day": str(yesterday)})) == [late]
    assert listed(operator.get(JOBS, {"day": "2020-02-29"})) == []
    assert f"?day={yesterday}" in html.read(operator.get(JOBS)).links()


@pytest.mark.parametrize(
    "query",
    [
        {"day": "yesterday"},
        {"day": "2026-02-30"},
        {"day": "0001-01-01"},
        {"day": "9999-12-31"},
        {"status__exact": "\x00"},
        {"error_code__exact": "nonsense"},
    ],
)
def test_a_filter_that_makes_no_sense_leads_back_to_the_list(operator: Client, query):
    response = operator.get(JOBS, query)

    assert (response.status_code, response.headers["Location"]) == (302, f"{JOBS}?e=1")


@pytest.mark.parametrize(
    "lookup", ["prompt__startswith", "result_text__contains", "user__password"]
)
def test_no_address_can_guess_at_what_is_not_shown(watcher: Client, ada: Api, lookup: str):
    job_in("succeeded", user=ada.user, prompt="secret", result_text="secret")

    assert watcher.get(JOBS, {lookup: "s"}).status_code == 400


def test_search_finds_by_id_user_and_key_exactly(operator: Client, ada: Api, bob: Api):
    key = "6f1e7e0c-0d3f-4a52-9d0e-8e5f3a1b2c3d"
    wanted = job_in("queued", user=ada.user, idempotency_key=key)
    job_in("queued", user=bob.user)

    for term in (str(wanted.pk), f" {str(wanted.pk).upper()} ", "ada", key):
        assert listed(operator.get(JOBS, {"q": term})) == [str(wanted.pk)], term
    for term in (str(wanted.pk)[:8], "ad", "ADA", key[:-1], "%", "\N{GRINNING FACE}"):
        assert listed(operator.get(JOBS, {"q": term})) == [], term


def test_a_users_jobs_are_found_newest_first(operator: Client, ada: Api):
    jobs = [job_in("queued", user=ada.user, age_s=age_s) for age_s in (5, 60, 1)]

    found = listed(operator.get(JOBS, {"q": "ada"}))

    assert found == [str(jobs[place].pk) for place in (2, 0, 1)]


def test_history_is_never_edited(operator: Client, ada: Api):
    job = job_in("running", user=ada.user)
    changed = {"status": "succeeded", "idempotency_key": "other"}
    deletion = {"action": "delete_selected", "_selected_action": str(job.pk), "post": "yes"}

    with assert_nothing_written():
        answers = [
            operator.get(f"{JOBS}add/"),
            operator.post(f"{JOBS}add/", changed),
            operator.post(page_of(job), changed),
            operator.post(f"{JOBS}{job.pk}/delete/", {"post": "yes"}),
            operator.post(f"/admin/auth/user/{ada.user_id}/delete/", {"post": "yes"}),
        ]
        operator.post(JOBS, deletion)

    assert [answer.status_code for answer in answers] == [403] * 5


def test_a_job_offers_no_field_to_fill_in(watcher: Client, ada: Api):
    page = html.read(watcher.get(page_of(job_in("queued", user=ada.user))))

    assert set(page.fields) <= {"csrfmiddlewaretoken"}


def test_staff_see_jobs_only_with_the_permission(watcher: Client, ada: Api):
    assert staff("other").get(JOBS).status_code == 403
    assert watcher.get(JOBS).status_code == 200
