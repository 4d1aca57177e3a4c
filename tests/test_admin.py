"""The admin: what operators see of jobs and budgets, and the little that they may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from budgets.models import InferenceBudget
from reports.admin import BoundedPaginator
from reports.models import Status
from tests.support import html
from tests.support.clients import Api
from tests.support.expect import assert_nothing_written
from tests.support.rows import budget, give_budget, job_in
from tests.support.statements import recorded

if TYPE_CHECKING:
    from reports.models import ReportJob
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db

JOBS = "/admin/reports/reportjob/"
BUDGETS = "/admin/budgets/inferencebudget/"


@pytest.fixture
def operator(db: None) -> Client:
    """A superuser, signed in: whatever is refused here is refused to everybody."""
    client = Client(headers={"Accept": "text/html"})
    client.force_login(get_user_model().objects.create_superuser("operator"))
    return client


def page_of(job: ReportJob) -> str:
    return f"{JOBS}{job.pk}/change/"


def listed(response: Answer) -> list[str]:
    assert response.status_code == 200
    links = [path for path in html.read(response).links(JOBS) if "/change/" in path]
    return [path.split("/")[4] for path in links]


def test_jobs_are_listed_newest_first_with_their_users(operator: Client, ada: Api, bob: Api):
    jobs = [job_in("failed", user=user) for user in (ada.user, bob.user)]

    response = operator.get(JOBS)

    words = html.read(response).words
    assert listed(response) == sorted((str(job.pk) for job in jobs), reverse=True)
    assert all(word in words for word in ("ada", "bob", "Failed", "provider_5xx", "503"))


def test_neither_the_list_nor_a_job_shows_its_texts(operator: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="my prompt", result_text="my text")

    for path in (JOBS, page_of(job), f"{JOBS}?q=ada"):
        response = operator.get(path)
        assert response.status_code == 200
        assert b"my prompt" not in response.content
        assert b"my text" not in response.content


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


def test_search_finds_by_id_user_and_key_exactly(operator: Client, ada: Api, bob: Api):
    key = "6f1e7e0c-0d3f-4a52-9d0e-8e5f3a1b2c3d"
    wanted = job_in("queued", user=ada.user, idempotency_key=key)
    job_in("queued", user=bob.user)

    for term in (str(wanted.pk), f" {str(wanted.pk).upper()} ", "ada", key):
        assert listed(operator.get(JOBS, {"q": term})) == [str(wanted.pk)], term
    for term in (str(wanted.pk)[:8], "ad", "ADA", key[:-1], "%", "\N{GRINNING FACE}"):
        assert listed(operator.get(JOBS, {"q": term})) == [], term


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


def test_a_job_offers_no_field_to_fill_in(operator: Client, ada: Api):
    page = html.read(operator.get(page_of(job_in("queued", user=ada.user))))

    assert set(page.fields) <= {"csrfmiddlewaretoken"}


def test_staff_see_jobs_only_with_the_permission(ada: Api):
    ada.user.is_staff = True
    ada.user.save()
    client = Client(headers={"Accept": "text/html"})
    client.force_login(ada.user)
    assert client.get(JOBS).status_code == 403

    ada.user.user_permissions.add(Permission.objects.get(codename="view_reportjob"))

    assert client.get(JOBS).status_code == 200


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


def act(client: Client, action: str, *jobs: ReportJob) -> Answer:
    """Choose jobs in the list and run an action on them."""
    form = {"action": action, "_selected_action": [str(job.pk) for job in jobs]}
    return client.post(JOBS, form, follow=True)


def test_an_operator_cancels_jobs_and_is_told_how_many(operator: Client, ada: Api):
    queued, running = (job_in(status, user=ada.user) for status in ("queued", "running"))
    ended = job_in("succeeded", user=ada.user)
    spent: Any = budget(ada.user)["spent_tokens"]

    response = act(operator, "cancel", queued, running, ended)

    assert "2 cancelled" in html.read(response).words
    for job in (queued, running, ended):
        job.refresh_from_db()
    assert (queued.error_code, running.error_code, ended.status) == (
        "cancelled",
        "cancelled",
        "succeeded",
    )
    assert budget(ada.user)["spent_tokens"] == spent - queued.token_estimate


def test_an_operator_fails_a_job_whose_worker_is_gone(operator: Client, ada: Api):
    running, queued = (job_in(status, user=ada.user) for status in ("running", "queued"))

    response = act(operator, "fail_as_lost", running, queued)

    assert "1 failed as lost" in html.read(response).words
    running.refresh_from_db()
    queued.refresh_from_db()
    assert (running.status, running.error_code, queued.status) == (
        "failed",
        "worker_lost",
        "queued",
    )


def test_who_may_only_look_ends_no_job(ada: Api):
    watcher = get_user_model().objects.create_user("watcher", is_staff=True)
    watcher.user_permissions.add(Permission.objects.get(codename="view_reportjob"))
    client = Client(headers={"Accept": "text/html"})
    client.force_login(watcher)
    job = job_in("running", user=ada.user)

    act(client, "cancel", job)

    job.refresh_from_db()
    assert job.status == "running"
