"""Polling in a real browser: polite, quiet, and over when there is nothing more to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import expect

from reports import transitions
from reports.errors import ErrorCode
from reports.models import ReportJob
from reports.provider import Completion, Failure
from tests.browser.conftest import FRAGMENT, sign_in
from tests.support.rows import job_in

if TYPE_CHECKING:
    from playwright.sync_api import Route

    from tests.browser.conftest import Tab
    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

MARKUP = (
    "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>"
    "<a href='javascript:window.hurt = 3'>link</a>"
)
# What each announcement said, in order; a text that is set twice counts twice.
LISTEN = """() => {
  window.heard = [];
  const announcement = document.getElementById("announcement");
  new MutationObserver(() => window.heard.push(announcement.textContent))
    .observe(announcement, {childList: true, characterData: true, subtree: true});
}"""

# Puts markup into the page and says what the policy has blocked.
SLIP = """markup => new Promise((resolve) => {
  document.addEventListener("securitypolicyviolation", (event) => {
    resolve(event.effectiveDirective);
  });
  document.getElementById("job").innerHTML = markup;
})"""


def assert_polling_has_ended(tab: Tab) -> None:
    """No poll follows, however long one waits."""
    polls = len(tab.polls)
    tab.page.clock.run_for("10:00")
    assert len(tab.polls) == polls


def test_a_provider_that_answers_503_ends_polling_with_a_reason(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    held = transitions.claim(job.pk)
    assert held is not None

    transitions.fail(held, Failure(ErrorCode.PROVIDER_5XX, 503, "The provider answered 503."))

    expect(page.get_by_role("heading", name="Failed")).to_be_visible()
    expect(page.locator("#job")).to_contain_text("The provider answered 503.")
    expect(page.locator("#job")).to_contain_text("tokens were given back")
    assert_polling_has_ended(tab)


def test_focus_and_selection_stay_while_nothing_changes(tab: Tab, ada: Api):
    page = tab.watch(job_in("queued", user=ada.user))
    page.get_by_role("link", name="Cancel").focus()
    page.evaluate("() => getSelection().selectAllChildren(document.querySelector('#job .quiet'))")

    tab.poll(4)

    assert page.evaluate("() => document.activeElement.id") == "cancel"
    assert page.evaluate("() => getSelection().toString()").startswith("It goes on without")


def test_focus_stays_in_the_report_when_its_link_goes(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    page.get_by_role("link", name="Cancel").focus()

    transitions.cancel(job)

    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    expect(page.locator("#job")).to_be_focused()


def test_each_state_is_announced_once(tab: Tab, ada: Api, bob: Api):
    ahead = [job_in("queued", user=bob.user, age_s=9) for _ in range(2)]
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    page.evaluate(LISTEN)

    for number, older in enumerate(ahead):
        transitions.cancel(older)
        expect(page.locator("#job")).to_contain_text(("1 older", "Next in line")[number])
    held = transitions.claim(job.pk)
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    tab.poll(2)
    assert held is not None
    transitions.succeed(held, Completion("text"))
    expect(page.get_by_role("heading", name="Ready")).to_be_visible()

    assert page.evaluate("window.heard") == ["Your report is running.", "Your report is ready."]


def test_a_report_that_is_gone_ends_polling_with_a_message(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)

    ReportJob.objects.all().delete()

    expect(page.get_by_text("not here any more")).to_be_visible()
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    assert_polling_has_ended(tab)


def test_the_end_of_the_session_leads_to_sign_in_and_back(tab: Tab, ada: Api):
    ada.user.set_password("a password of hers")
    ada.user.save()
    sign_in(tab.page.context, ada, tab.address)
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)

    Session.objects.all().delete()

    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("#job")).to_have_count(0)
    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("a password of hers")
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{tab.address}/jobs/{job.pk}/")
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()


@pytest.mark.parametrize(
    ("trouble", "words"), [("abort", "no connection"), ("503", "trouble answering")]
)
def test_trouble_is_told_quietly_slows_polling_and_passes(
    tab: Tab, ada: Api, trouble: str, words: str
):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)

    def refuse(route: Route) -> None:
        if trouble == "abort":
            route.abort()
        else:
            route.fulfill(status=503, body="<h1>Bad gateway</h1>")

    page.route(FRAGMENT, refuse)
    expect(page.locator("#notice")).to_contain_text(words)
    before = len(tab.polls)
    for _ in range(60):
        page.clock.run_for(1_000)
        expect(page.locator(".htmx-request")).to_have_count(0)
    assert 2 <= len(tab.polls) - before <= 8
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()

    page.unroute(FRAGMENT)
    transitions.claim(job.pk)
    page.clock.run_for("00:40")
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    expect(page.locator("#notice")).to_be_empty()


def test_polling_goes_on_at_once_when_the_network_is_back(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    page.context.set_offline(True)
    for _ in range(6):  # until the next try is half a minute away
        page.clock.run_for(31_000)
        expect(page.locator("#notice")).to_contain_text("no connection")
        expect(page.locator(".htmx-request")).to_have_count(0)
    transitions.claim(job.pk)

    page.context.set_offline(False)

    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    expect(page.locator("#notice")).to_be_empty()


def test_a_page_from_the_browsers_memory_is_read_anew(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.open(f"/jobs/{job.pk}/")
    page.evaluate("window.isTheSamePage = true")
    transitions.cancel(job)

    with page.expect_navigation():
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")

    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    assert not page.evaluate("window.isTheSamePage")


def test_what_is_open_stays_open_when_the_report_moves_on(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    page.get_by_text("What happened when").click()

    transitions.claim(job.pk)

    expect(page.get_by_text("Taken up by a worker")).to_be_visible()
    assert "icon-running.svg" in (page.locator("#icon").get_attribute("href") or "")


def test_a_page_whose_poller_did_not_arrive_reads_itself_anew(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    tab.page.route("**/htmx*", lambda route: route.abort())
    page = tab.open(f"/jobs/{job.pk}/")
    transitions.claim(job.pk)

    with page.expect_navigation():
        page.clock.run_for("00:11")

    expect(page.get_by_role("heading", name="Running")).to_be_visible()


def test_a_slow_server_is_asked_once_at_a_time(tab: Tab, ada: Api):
    page = tab.watch(job_in("queued", user=ada.user))
    held: list[Route] = []
    page.route(FRAGMENT, lambda route: held.append(route))  # noqa: PLW0108  # it wants a function
    with page.expect_request(FRAGMENT):
        page.clock.run_for(2_000)

    page.clock.run_for(10_000)

    assert len(held) == 1
    held[0].continue_()


def test_a_hidden_tab_asks_nothing_and_catches_up_when_it_is_back(tab: Tab, ada: Api):
    tab.page.add_init_script(
        "Object.defineProperty(document, 'hidden', {get: () => Boolean(window.isAway)})"
    )
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    page.evaluate("window.isAway = true")
    page.clock.run_for(1_000)
    polls = len(tab.polls)

    page.clock.run_for("10:00")
    assert len(tab.polls) == polls
    transitions.claim(job.pk)
    page.evaluate("window.isAway = false; document.dispatchEvent(new Event('visibilitychange'))")

    expect(page.get_by_role("heading", name="Running")).to_be_visible()


def test_markup_from_a_model_is_inert(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user, prompt=MARKUP)
    page = tab.watch(job)
    held = transitions.claim(job.pk)
    assert held is not None

    transitions.succeed(held, Completion(MARKUP))

    expect(page.locator("#job .result")).to_have_text(MARKUP)
    for path in (f"/jobs/{job.pk}/", "/", f"/?again={job.pk}"):
        assert page.locator("main img, main a[href^=javascript]").count() == 0
        assert page.evaluate("window.hurt") is None
        tab.open(path)


def test_markup_that_slipped_through_would_run_nothing(tab: Tab, ada: Api):
    page = tab.open(f"/jobs/{job_in('succeeded', user=ada.user).pk}/")

    blocked = page.evaluate(SLIP, MARKUP)

    assert blocked == "script-src-attr"
    assert page.evaluate("window.hurt") is None
