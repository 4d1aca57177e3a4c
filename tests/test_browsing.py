"""The API as pages for a browser: what each tells, links and offers, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tests.support import html
from tests.support.rows import give_budget, job_in
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api
    from tests.support.html import Page

pytestmark = pytest.mark.django_db

HTML = "text/html"


@pytest.fixture
def browser(ada: Api) -> Client:
    """Ada's, signed in, that asks for pages and must send CSRF tokens."""
    client = ada.browser()
    client.defaults["HTTP_ACCEPT"] = HTML
    return client


def page_at(client: Client, path: str, status: int = 200) -> Page:
    response = client.get(path)
    assert response.status_code == status
    assert response.headers["Content-Type"].startswith(HTML)
    return html.read(response)


def forms(page: Page) -> list[tuple[str | None, str | None]]:
    """What each form would send, and where."""
    named = [attributes for tag, attributes in page.tags if tag == "form"]
    return [(form["data-method"], form["action"]) for form in named if "data-method" in form]


def test_the_list_documents_its_methods_and_takes_a_prompt_with_a_key(browser: Client):
    page = page_at(browser, "/reports")

    assert "GET Your jobs, newest first; ?status=, ?created_after=" in page.words
    assert "POST Accept a prompt as work and answer with the job's id." in page.words
    assert "HEAD Your jobs" not in page.words
    assert forms(page) == [("POST", "/reports")]
    assert page.fields["prompt"] == ""
    assert UUID(page.fields["key"]).version == 4
    assert page.fields["key"] != page_at(browser, "/reports").fields["key"]
    assert page.fields["csrfmiddlewaretoken"]


def test_the_list_links_own_jobs_states_and_pages(browser: Client, ada: Api, bob: Api):
    jobs = [job_in("failed", user=ada.user) for _ in range(21)]
    other = job_in("queued", user=bob.user)

    page = page_at(browser, "/reports")

    links = page.links("/reports/")
    assert set(links) == {f"/reports/{job.pk}" for job in jobs[1:]}
    assert str(other.pk) not in page.words
    assert "?status=failed" in page.links()
    (older,) = [link for link in page.links() if "cursor=" in link]
    assert page_at(browser, older).links("/reports/") == [f"/reports/{jobs[0].pk}"]


def test_every_page_leads_to_the_others(browser: Client, ada: Api):
    job = job_in("queued", user=ada.user)

    for path in ("/reports", f"/reports/{job.pk}", "/budget"):
        assert {"/reports", "/budget", "/docs", "/schema"} <= set(page_at(browser, path).links())


@pytest.mark.parametrize("status", ["queued", "succeeded"])
def test_a_job_links_its_page_and_offers_to_cancel_and_erase(
    browser: Client, ada: Api, status: str
):
    job = job_in(status, user=ada.user)

    page = page_at(browser, f"/reports/{job.pk}")

    assert f"/jobs/{job.pk}/" in page.links()
    assert forms(page) == [
        ("POST", f"/reports/{job.pk}/cancel"),
        ("POST", f"/reports/{job.pk}/again"),
        ("DELETE", f"/reports/{job.pk}"),
    ]


def test_the_address_of_cancel_offers_to_cancel(browser: Client, ada: Api):
    job = job_in("queued", user=ada.user)

    page = page_at(browser, f"/reports/{job.pk}/cancel", 405)

    assert f"/reports/{job.pk}" in page.links()
    assert ("POST", f"/reports/{job.pk}/cancel") in forms(page)


def test_somebody_elses_job_looks_like_none(browser: Client, bob: Api):
    theirs = page_at(browser, f"/reports/{job_in('queued', user=bob.user).pk}", 404)
    nobodys = page_at(browser, "/reports/none", 404)

    for page in (theirs, nobodys):
        assert forms(page) == []
        assert "404 Not Found" in page.words
        assert '"error": "not_found"' in page.words


def test_nobody_is_shown_the_way_to_sign_in_and_no_form(client: Client):
    client.defaults["HTTP_ACCEPT"] = HTML

    page = page_at(client, "/reports?status=queued", 401)

    assert "/login/?next=/reports%3Fstatus%3Dqueued" in page.links()
    assert forms(page) == []


def test_the_budget_is_drawn(browser: Client, ada: Api):
    give_budget(ada.user, daily_tokens=1000, spent_tokens=250)

    page = page_at(browser, "/budget")

    (meter,) = [attributes for tag, attributes in page.tags if tag == "meter"]
    assert (meter["max"], meter["value"]) == ("1000", "250")
    assert '"remaining_tokens": 750' in page.words


def test_an_erasure_has_no_body_for_a_browser_either(ada: Api):
    job = job_in("succeeded", user=ada.user)

    response = ada.request("DELETE", f"/reports/{job.pk}", headers={"Accept": HTML})

    assert (response.status_code, response.content) == (204, b"")
    assert "Content-Type" not in response.headers


def test_a_page_shows_texts_as_text_and_runs_nothing_of_its_own(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, result_text="<script>alert(1)</script> \N{SNOWMAN}")

    for path in ("/reports", f"/reports/{job.pk}", f"/reports/{job.pk}/cancel", "/budget"):
        response = browser.get(path)
        page = html.read(response)
        assert b"<script>alert" not in response.content
        scripts = [attributes["src"] or "" for tag, attributes in page.tags if tag == "script"]
        assert [src.partition("?")[0] for src in scripts] == ["/static/api.js"]
        names = {name for _, attributes in page.tags for name in attributes}
        assert not [name for name in names if name == "style" or name.startswith("on")]
        assert "unsafe" not in response.headers["Content-Security-Policy"]
    assert "<script>alert(1)</script> \N{SNOWMAN}" in page_at(browser, f"/reports/{job.pk}").words


def test_a_page_costs_no_statement_more_than_its_json(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user)

    for path in ("/reports", f"/reports/{job.pk}", "/budget"):
        with recorded() as as_page:
            browser.get(path)
        with recorded() as as_json:
            browser.get(path, headers={"Accept": "application/json"})
        assert as_page == as_json
