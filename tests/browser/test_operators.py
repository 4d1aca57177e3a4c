"""The admin in a real browser, under the site's policy: charts, lists and questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from budgets.models import CapChange
from tests.browser.test_looks import AXE, PICTURES
from tests.support.rows import give_budget, job_in

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Tab
    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOOKS: list[tuple[Any, int]] = [("light", 1440), ("dark", 360)]
# What the law asks for; Django's own pages do not follow every piece of advice beyond it.
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


def assert_bars_nobody(page: Page, name: str) -> None:
    """No finding of axe and nothing cut off, in both schemes, narrow and wide; with pictures."""
    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        # Colours that are on their way from one scheme to the other are nobody's.
        page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")
        found = AXE.run(page, options=WCAG)
        page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.fixture
def operator(tab: Tab, ada: Api) -> Tab:
    """Ada as a superuser, with jobs of every kind and a budget."""
    ada.user.is_staff = ada.user.is_superuser = True
    ada.user.save()
    for status in ("queued", "running", "succeeded", "failed"):
        job_in(status, user=ada.user, age_s=400)
    job_in("failed", user=ada.user, error_code="worker_lost", http_status=500, is_unclear=True)
    give_budget(ada.user, daily_tokens=5000, spent_tokens=300)
    return tab


def test_charts_lists_and_questions_work_under_the_policy(operator: Tab, ada: Api):
    said: list[str] = []
    page = operator.page
    page.on("console", lambda line: said.append(line.text))

    operator.open("/admin/")
    expect(page.get_by_role("img", name="Jobs that ended, by five minutes")).to_be_visible()
    page.get_by_role("link", name="Usage by day and user").click()
    expect(page.get_by_role("img", name="Tokens by day")).to_be_visible()
    operator.open("/admin/reports/reportjob/?status__exact=running")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("fail_as_lost")
    page.get_by_role("button", name="Go").click()
    page.get_by_role("button", name="Fail as worker_lost 1 job").click()
    expect(page.get_by_text("1 failed as lost.")).to_be_visible()
    operator.open(f"/admin/budgets/inferencebudget/{ada.user_id}/change/")
    page.get_by_role("button", name="Reset today").click()
    page.get_by_label("Reason").fill("Their loop was ours.")
    page.get_by_role("button", name="Reset today").click()
    expect(page.get_by_text("1 changed.")).to_be_visible()

    assert CapChange.objects.get().why == "Their loop was ours."
    assert said == []


def test_pages_of_operators_bar_nobody(operator: Tab):
    assert_bars_nobody(operator.open("/admin/"), "admin-front")
    assert_bars_nobody(operator.open("/admin/usage/"), "admin-usage")
    page = operator.open("/admin/budgets/inferencebudget/")
    page.locator("#action-toggle").check()
    page.locator("select[name=action]").select_option("change_caps")
    page.get_by_role("button", name="Go").click()
    assert_bars_nobody(page, "admin-ask")
