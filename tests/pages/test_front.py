"""The front page: the day's budget and one's own reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.utils import timezone

from reports.models import Status
from tests.support import html
from tests.support.rows import give_budget, job_in
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db


def test_the_budget_of_the_day_is_told(browser: Client, ada: Api):
    give_budget(ada.user, daily_tokens=100_000, spent_tokens=1_234)

    page = html.read(browser.get("/"))

    assert "98,766 of 100,000 tokens are left" in page.words
    assert "starts again at 00:00 UTC" in page.words


def test_yesterdays_spending_does_not_count(browser: Client, ada: Api):
    give_budget(ada.user, daily_tokens=500, spent_tokens=500, day_utc="2020-01-01")

    assert "500 of 500 tokens are left" in html.read(browser.get("/")).words


def listed(response: Answer) -> list[str]:
    return [path.split("/")[2] for path in html.read(response).links("/jobs/")]


def test_the_list_shows_own_reports_newest_first(browser: Client, ada: Api, bob: Api):
    old = job_in("succeeded", user=ada.user, age_s=60)
    new = job_in("queued", user=ada.user)
    job_in("queued", user=bob.user)

    assert listed(browser.get("/")) == [str(new.pk), str(old.pk)]


@pytest.mark.parametrize("status", Status.values)
def test_the_list_can_be_filtered(browser: Client, ada: Api, status: str):
    jobs = {name: job_in(name, user=ada.user) for name in Status.values}

    response = browser.get("/", {"status": status})

    assert listed(response) == [str(jobs[status].pk)]


def test_pages_of_the_list_show_each_report_once(browser: Client, ada: Api):
    moment = timezone.now()
    jobs = [job_in("succeeded", user=ada.user, created_at=moment) for _ in range(25)]
    jobs += [job_in("succeeded", user=ada.user, age_s=100 + number) for number in range(25)]

    seen: list[str] = []
    path = "/?status=succeeded"
    while path:
        response = browser.get(path)
        seen += listed(response)
        path = next(iter(html.read(response).links("/?before=")), "")

    newest_first = sorted(jobs, key=lambda job: (job.created_at, job.pk), reverse=True)
    assert seen == [str(job.pk) for job in newest_first]


def test_the_list_costs_four_statements(browser: Client, ada: Api):
    for _ in range(3):
        job_in("succeeded", user=ada.user)

    with recorded() as statements:
        browser.get("/")

    assert statements == [
        "SELECT django_session",
        "SELECT auth_user",
        "SELECT budgets_inferencebudget",
        "SELECT reports_reportjob",
    ]
