"""The fragment: what a poll costs, what it brings, and when it is the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from reports import transitions
from reports.models import Status
from tests.pages.paths import fragment_path, job_path, poll_of
from tests.support import html
from tests.support.rows import job_in
from tests.support.statements import recorded

if TYPE_CHECKING:
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db

POLL = ["SELECT django_session", "SELECT auth_user", "SELECT reports_reportjob"]
HTMX = {"HX-Request": "true"}


def test_the_fragment_is_the_same_as_in_the_page(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user)

    page, fragment = browser.get(job_path(job)), browser.get(fragment_path(job))

    assert fragment.content.strip() in page.content
    assert "<html" not in fragment.content.decode()


@pytest.mark.parametrize("status", ["queued", "running"])
def test_a_poll_says_nothing_while_nothing_has_changed(browser: Client, ada: Api, status: str):
    job = job_in(status, user=ada.user)
    path = poll_of(browser.get(job_path(job)))

    response = browser.get(path, headers=HTMX)

    assert (response.status_code, response.content) == (204, b"")


def test_a_poll_brings_the_next_state_and_asks_on(browser: Client, ada: Api):
    job = job_in("queued", user=ada.user)
    path = poll_of(browser.get(job_path(job)))
    transitions.claim(job.pk)

    response = browser.get(path, headers=HTMX)

    page = html.read(response)
    assert page.attributes("job")["data-state"] == "running"
    assert page.attributes("poll")["hx-get"] != path


def test_a_poll_tells_that_the_queue_has_moved(browser: Client, ada: Api, bob: Api):
    ahead = job_in("queued", user=bob.user, age_s=5)
    path = poll_of(browser.get(job_path(job_in("queued", user=ada.user))))
    transitions.claim(ahead.pk)

    response = browser.get(path, headers=HTMX)

    assert "Next in line" in html.read(response).words


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_the_last_poll_brings_an_element_that_does_not_poll(browser: Client, ada: Api, status: str):
    job = job_in(status, user=ada.user)

    response = browser.get(fragment_path(job), headers=HTMX)

    assert response.status_code == 200
    assert "hx-" not in response.content.decode()


@pytest.mark.parametrize(("age_s", "every_s"), [(0, 1), (30, 2), (120, 5), (1000, 10)])
def test_polls_slow_down_as_the_report_ages(browser: Client, ada: Api, age_s: int, every_s: int):
    job = job_in("queued", user=ada.user, age_s=age_s)

    poll = html.read(browser.get(job_path(job))).attributes("poll")

    assert poll["hx-trigger"] == f"every {every_s}s, poll-now"


def test_a_new_pace_swaps_the_poller_and_leaves_the_report_alone(browser: Client, ada: Api):
    job = job_in("queued", user=ada.user, age_s=30)
    path = poll_of(browser.get(job_path(job))).replace("every=2", "every=1")

    response = browser.get(path, headers=HTMX)

    page = html.read(response)
    assert response.headers["HX-Retarget"] == "#poll"
    assert [tag for tag, _ in page.tags] == ["div"]
    assert page.attributes("poll")["hx-trigger"] == "every 2s, poll-now"


@pytest.mark.parametrize("status", Status.values)
def test_a_poll_reads_session_user_and_job_and_writes_nothing(
    browser: Client, ada: Api, status: str
):
    job = job_in(status, user=ada.user)

    with recorded() as statements:
        browser.get(fragment_path(job), headers=HTMX)

    assert statements == POLL


def test_a_poll_after_the_session_moves_the_whole_page_to_sign_in(ada: Api):
    job = job_in("queued", user=ada.user)

    response = Client().get(fragment_path(job), headers=HTMX)

    assert response.content == b""
    assert response.headers["HX-Redirect"] == f"/login/?next={job_path(job)}"


def test_a_fragment_opened_as_a_page_leads_to_the_page_after_sign_in(ada: Api):
    job = job_in("queued", user=ada.user)

    response = Client().get(fragment_path(job))

    assert response.headers["Location"] == f"/login/?next={job_path(job)}"
