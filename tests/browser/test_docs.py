"""The page that shows the API, under its own policy: drawn, and tried by a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from reports.models import ReportJob

if TYPE_CHECKING:
    from tests.browser.conftest import Tab

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_signed_in_reader_sends_a_report_from_the_page_of_the_api(tab: Tab):
    elsewhere: list[str] = []
    refused: list[str] = []
    page = tab.page
    page.on("request", lambda request: elsewhere.append(request.url))
    page.on("console", lambda message: refused.append(message.text))

    tab.open("/docs")
    page.get_by_role("button", name="Accept a prompt as work").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_placeholder("Idempotency-Key").fill("from-the-docs")
    page.get_by_role("button", name="Execute").click()

    expect(page.locator(".live-responses-table .response-col_status").last).to_contain_text("202")
    assert ReportJob.objects.get().idempotency_key == "from-the-docs"
    assert [url for url in elsewhere if not url.startswith((tab.address, "data:"))] == []
    assert refused == []
    assert tab.complaints == []
