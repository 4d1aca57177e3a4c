"""A word when a long report ends: off until it is asked for, and told once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from reports import transitions
from reports.errors import ErrorCode
from reports.models import ReportJob
from reports.provider import Failure
from tests.support.rows import job_in

if TYPE_CHECKING:
    from tests.browser.conftest import Tab
    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# What the browser would show, and whether anybody asked for leave; the answer to that is `granted`.
STAND_IN = """
  Object.defineProperty(document, "hidden", { get: () => Boolean(window.isAway) });
  window.shown = [];
  window.asked = 0;
  window.Notification = class extends EventTarget {
    static permission = sessionStorage.getItem("permission") ?? "default";
    static async requestPermission() {
      window.asked += 1;
      sessionStorage.setItem("permission", "PERMISSION");
      return (Notification.permission = "PERMISSION");
    }
    constructor(title, options) { super(); window.shown.push([title, options.body, options.tag]); }
  };
"""


def stand_in(tab: Tab, permission: str) -> None:
    """Before any page is opened: headless browsers show no notifications."""
    tab.page.add_init_script(STAND_IN.replace("PERMISSION", permission))


def test_the_end_is_told_to_a_hidden_tab_that_asked_for_it_also_after_a_reload(tab: Tab, ada: Api):
    stand_in(tab, "granted")
    job = job_in("running", user=ada.user)
    page = tab.watch(job)
    button = page.get_by_role("button", name="Notify me when it ends")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("window.asked") == 0

    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    page.reload()
    expect(button).to_have_attribute("aria-pressed", "true")
    tab.poll(1)
    page.evaluate("window.isAway = true")
    polls = len(tab.polls)
    for _ in range(32):
        page.clock.run_for(1_000)
        expect(page.locator(".htmx-request")).to_have_count(0)
    assert 2 <= len(tab.polls) - polls <= 3
    held = transitions.Claim.of(job)
    transitions.fail(held, Failure(ErrorCode.PROVIDER_5XX, 503, "It answered 503."))
    page.clock.run_for("00:20")

    expect(page.get_by_role("heading", name="Failed")).to_be_attached()
    expect(page).to_have_title("Failed · Reports")
    assert "icon-failed.svg" in (page.locator("#icon").get_attribute("href") or "")
    told = page.evaluate("window.shown")
    assert told == [["Reports", "Your report failed.", f"/jobs/{job.pk}/"]]
    assert page.evaluate("window.asked") == 0


def test_nobody_is_told_who_is_looking_or_has_turned_it_off(tab: Tab, ada: Api):
    stand_in(tab, "granted")
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    button = page.get_by_role("button", name="Notify me when it ends")
    button.click()

    transitions.cancel(job)

    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    assert page.evaluate("window.shown") == []
    tab.watch(job_in("queued", user=ada.user))
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    page.evaluate("window.isAway = true")
    polls = len(tab.polls)
    page.clock.run_for("05:00")
    assert len(tab.polls) == polls
    page.evaluate("document.hasFocus = () => false; window.isAway = false")
    transitions.cancel(ReportJob.objects.get(status="queued"))
    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    assert page.evaluate("window.shown") == []


def test_a_browser_that_refuses_is_told_of_once_and_not_asked_again(tab: Tab, ada: Api):
    stand_in(tab, "denied")
    page = tab.open(f"/jobs/{job_in('running', user=ada.user).pk}/")
    button = page.get_by_role("button", name="Notify me when it ends")

    button.click()

    expect(page.locator("#notice")).to_contain_text("does not allow notifications")
    expect(button).to_be_hidden()
    page.reload()
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    expect(button).to_be_hidden()
    assert page.evaluate("window.asked") == 0
