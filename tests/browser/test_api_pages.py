"""The API's pages in a real browser: their forms send what a program would."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from reports.models import ReportJob
from tests.browser.test_operators import assert_bars_nobody
from tests.support.rows import give_budget, job_in, row

if TYPE_CHECKING:
    from tests.browser.conftest import Tab
    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PROMPT = 'two\nlines, \N{GRINNING FACE} and "quotes"'


def test_a_report_is_sent_replayed_cancelled_and_erased(tab: Tab):
    said: list[str] = []
    page = tab.open("/reports")
    page.on("console", lambda line: said.append(line.text))
    answer = page.locator("#answer")
    send = page.get_by_role("button", name="POST", exact=True)

    page.get_by_role("textbox", name="Prompt").fill(PROMPT)
    page.get_by_label("Idempotency-Key").fill("from the page")
    send.click()
    expect(answer.get_by_role("heading")).to_have_text(re.compile("^202"))
    expect(answer.get_by_role("heading")).to_be_focused()
    send.click()
    expect(answer).to_contain_text("Idempotent-Replayed: true")
    job = ReportJob.objects.get()
    assert (job.prompt, job.idempotency_key) == (PROMPT, "from the page")

    answer.get_by_role("link", name="The report").click()
    expect(page).to_have_url(re.compile(f"/reports/{job.pk}$"))
    page.get_by_role("button", name="POST cancel").click()
    expect(answer).to_contain_text('"error_code": "cancelled"')
    page.get_by_text("Erase…").click()
    page.get_by_role("button", name="DELETE").click()
    expect(answer.get_by_role("heading")).to_have_text(re.compile("^204"))
    assert row(job)["prompt"] == ""
    answer.get_by_role("link", name="Read it again").click()
    expect(page.get_by_text("410 Gone")).to_be_visible()

    assert [line for line in said if "410" not in line] == []


def test_refusals_are_shown_and_a_new_key_is_a_new_one(tab: Tab, ada: Api):
    give_budget(ada.user, daily_tokens=1, spent_tokens=1)
    page = tab.open("/reports")
    key = page.get_by_label("Idempotency-Key")
    first = key.input_value()

    page.get_by_role("textbox", name="Prompt").fill("too much for this budget")
    page.get_by_role("button", name="POST", exact=True).click()
    expect(page.locator("#answer-body")).to_contain_text("exceeds_daily_budget")
    key.fill("\N{SNOWMAN}")
    page.get_by_role("button", name="POST", exact=True).click()
    expect(page.get_by_role("heading", name="Nothing was answered")).to_be_visible()
    page.get_by_role("button", name="New key").click()

    assert re.fullmatch(
        r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", key.input_value()
    )
    assert key.input_value() != first
    assert not ReportJob.objects.exists()


def test_the_pages_of_the_api_bar_nobody(tab: Tab, ada: Api):
    job_in("queued", user=ada.user)
    job = job_in("failed", user=ada.user)

    assert_bars_nobody(tab.open("/reports"), "api-reports")
    assert_bars_nobody(tab.open(f"/reports/{job.pk}"), "api-report")
