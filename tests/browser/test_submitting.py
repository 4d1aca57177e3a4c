"""From a prompt to its text in a real browser: with scripts, without, twice, and after Back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.sessions.models import Session
from playwright.sync_api import expect

from reports import transitions
from reports.models import ReportJob
from reports.provider import Completion
from tests.browser.conftest import Tab, sign_in
from tests.support.rows import give_budget, job_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

EMOJI = "\N{GRINNING FACE}"
# How often a reader of screens is told of another fit.
COUNT_CHANGES = """() => {
  window.changes = 0;
  new MutationObserver(() => { window.changes += 1; })
    .observe(document.getElementById("fit"), {childList: true});
}"""
# Back to a page that the browser had frozen, which headless ones never do.
FROM_MEMORY = "dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))"
JOB_PAGE = re.compile(r"/jobs/[0-9a-f-]{36}/$")


def finish(job: ReportJob, text: str) -> None:
    """What a worker does."""
    held = transitions.claim(job.pk)
    assert held is not None
    assert transitions.succeed(held, Completion(text, finish_reason="stop"))


def test_a_prompt_becomes_a_text_without_a_reload_and_polling_ends(tab: Tab):
    page = tab.open("/")
    page.get_by_label("Prompt").fill("Why is the sky blue?")
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(JOB_PAGE)
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    page.evaluate("window.isTheSamePage = true")

    held = transitions.claim(ReportJob.objects.get().pk)
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    assert held is not None
    transitions.succeed(held, Completion("Because it scatters.", finish_reason="stop"))

    expect(page.get_by_text("Because it scatters.")).to_be_visible()
    expect(page).to_have_title("Ready · Reports")
    assert page.evaluate("window.isTheSamePage")
    polls = len(tab.polls)
    page.clock.run_for("05:00")
    assert len(tab.polls) == polls


def test_a_double_click_makes_one_job(tab: Tab):
    page = tab.open("/")
    page.get_by_label("Prompt").fill("once only")

    page.get_by_role("button", name="Submit").dblclick()

    expect(page).to_have_url(JOB_PAGE)
    assert ReportJob.objects.count() == 1


def test_a_lost_answer_is_asked_for_again_with_the_same_key(tab: Tab):
    page = tab.open("/")

    def lose(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        route.fetch(max_redirects=0)
        route.abort()

    page.route("**/", lose)
    page.get_by_label("Prompt").fill("sent, and no answer")
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url("chrome-error://chromewebdata/")
    first = ReportJob.objects.get()
    page.unroute("**/")

    tab.open("/")
    expect(page.get_by_label("Prompt")).to_have_value("sent, and no answer")
    expect(page.get_by_text("no answer came")).to_be_visible()
    page.get_by_role("button", name="Submit").click()

    expect(page).to_have_url(f"{tab.address}/jobs/{first.pk}/")
    tab.open("/")
    expect(page.get_by_label("Prompt")).to_have_value("")
    assert ReportJob.objects.count() == 1


def test_a_prompt_outlives_the_session_and_is_for_nobody_else(tab: Tab, ada: Api, bob: Api):
    ada.user.set_password("a password of hers")
    ada.user.save()
    sign_in(tab.page.context, ada, tab.address)
    page = tab.open("/")
    page.get_by_label("Prompt").fill("typed for an hour")
    Session.objects.all().delete()
    page.get_by_role("button", name="Submit").click()

    page.get_by_label("Name").fill("ada")
    page.get_by_label("Password").fill("a password of hers")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_label("Prompt")).to_have_value("typed for an hour")

    sign_in(page.context, bob, tab.address)
    tab.open("/")
    expect(page.get_by_label("Prompt")).to_have_value("")
    sign_in(page.context, ada, tab.address)
    tab.open("/")
    expect(page.get_by_label("Prompt")).to_have_value("")
    assert ReportJob.objects.count() == 0


def test_on_a_slow_network_many_clicks_make_one_job(tab: Tab):
    page = tab.open("/")
    slow = {"offline": False, "latency": 300, "downloadThroughput": 1e5, "uploadThroughput": 1e5}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
    page.get_by_label("Prompt").fill("patience")

    page.locator("#submit").click(click_count=4)

    expect(page).to_have_url(JOB_PAGE)
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    assert ReportJob.objects.count() == 1


def test_a_keyboard_is_enough(tab: Tab):
    page = tab.open("/")
    keys = page.keyboard

    def press(*names: str) -> None:
        """Skip to the content, then Tab until these have had the focus, and press the last."""
        keys.press("Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        keys.press("Enter")
        for name in names:
            keys.press("Tab")
            expect(page.locator(":focus-visible")).to_contain_text(name)
        keys.press("Enter")

    keys.press("Tab")
    keys.press("Enter")
    keys.press("Tab")
    expect(page.get_by_label("Prompt")).to_be_focused()
    keys.type("typed")
    keys.press("Enter")
    keys.type("in two lines")
    keys.press("Control+Enter")
    expect(page).to_have_url(JOB_PAGE)
    press("Prompt", "Notify", "Cancel")
    expect(page.get_by_role("heading", name="Cancel this report?")).to_be_visible()
    press("Cancel the report")

    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    assert ReportJob.objects.get().prompt == "typed\nin two lines"


def test_without_scripts_everything_can_be_reached(plain_tab: Tab, ada: Api):
    for number in range(25):
        job_in("succeeded", user=ada.user, prompt=f"prompt {number}", age_s=100 + number)
    failed = job_in("failed", user=ada.user, prompt="\nonce more")
    page = plain_tab.open("/")

    page.get_by_role("link", name="Ready").click()
    page.get_by_role("link", name="Older").click()
    expect(page.locator(".history li")).to_have_count(5)
    page.get_by_role("link", name="prompt 24").click()
    expect(page.get_by_role("button", name="Copy")).to_be_hidden()
    page.get_by_role("link", name="Erase").click()
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_role("heading", name="Erased")).to_be_visible()
    plain_tab.open(f"/jobs/{failed.pk}/")
    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()

    page.go_back()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert ReportJob.objects.filter(prompt="\nonce more").count() == 2


def test_two_people_at_two_browsers_see_their_own_and_nothing_else(
    tab: Tab, chromium: Browser, ada: Api, bob: Api
):
    job = job_in("queued", user=ada.user, prompt="a secret of hers")
    hers = tab.watch(job)
    with chromium.new_context(timezone_id="Asia/Kolkata") as context:
        sign_in(context, bob, tab.address)
        his = Tab(context.new_page(), tab.address)

        his.open(f"/jobs/{job.pk}/")
        expect(his.page.get_by_text("There is nothing here")).to_be_visible()
        his.open("/")
        expect(his.page.get_by_text("You have none yet")).to_be_visible()
        expect(his.page.locator("#resets")).to_contain_text("05:30")
        his.page.get_by_role("button", name="Sign out").click()
        expect(his.page.get_by_role("heading", name="Sign in")).to_be_visible()

    tab.poll(1)
    expect(hers.locator(".prompt .text")).to_have_text("a secret of hers")


def test_without_scripts_a_prompt_becomes_a_text(plain_tab: Tab):
    page = plain_tab.open("/")
    page.get_by_label("Prompt").fill("Why?")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()

    finish(ReportJob.objects.get(), "Because.")

    expect(page.get_by_text("Because.")).to_be_visible()
    expect(page.locator("meta[http-equiv]")).to_have_count(0)


def test_without_scripts_a_job_can_be_cancelled(plain_tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = plain_tab.open(f"/jobs/{job.pk}/")

    page.get_by_role("link", name="Cancel").click()
    page.get_by_role("button", name="Cancel the report").click()

    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()


def test_back_and_another_prompt_make_another_job(tab: Tab):
    page = tab.open("/")
    page.get_by_label("Prompt").fill("the first")
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(JOB_PAGE)
    first = page.url

    page.go_back()
    page.get_by_label("Prompt").fill("the second")
    page.get_by_role("button", name="Submit").click()

    expect(page.locator(".prompt .text")).to_have_text("the second")
    assert page.url != first
    assert set(ReportJob.objects.values_list("prompt", flat=True)) == {"the first", "the second"}


def test_back_shows_the_whole_page_in_its_present_state(tab: Tab, ada: Api):
    job = job_in("queued", user=ada.user)
    page = tab.watch(job)
    page.get_by_role("link", name="All reports").click()
    expect(page.get_by_label("Prompt")).to_be_visible()
    finish(job, "Ended meanwhile.")

    page.go_back()

    expect(page.get_by_text("Ended meanwhile.")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_the_count_of_characters_is_the_servers(tab: Tab):
    page = tab.open("/")
    prompt, size = page.get_by_label("Prompt"), page.locator("#size")

    prompt.fill(EMOJI * 3 + "\n")
    expect(size).to_contain_text("4 of 8,000 characters")
    prompt.fill(EMOJI * 8001)
    expect(size).to_contain_text("8,001 of 8,000 characters")
    page.get_by_role("button", name="Submit").click()
    told = prompt.evaluate("element => element.validationMessage")
    assert told == "Too long: leave out 1 character."
    prompt.fill(EMOJI * 7999 + "\n")
    page.get_by_role("button", name="Submit").click()

    expect(page).to_have_url(JOB_PAGE)
    assert ReportJob.objects.get().prompt == EMOJI * 7999 + "\n"


def test_what_a_prompt_costs_is_told_while_it_is_typed(tab: Tab, ada: Api, settings: Settings):
    settings.INFERENCE_MAX_OUTPUT_TOKENS = 100
    give_budget(ada.user, daily_tokens=2_000, spent_tokens=1_800)
    page = tab.open("/")
    prompt, size, fit = page.get_by_label("Prompt"), page.locator("#size"), page.locator("#fit")
    page.evaluate(COUNT_CHANGES)

    prompt.fill(EMOJI * 400)
    expect(size).to_contain_text("Reserves 200 tokens; 0 of today")
    expect(fit).to_be_empty()
    for count in (404, 405, 406):
        prompt.fill(EMOJI * count)
        expect(fit).to_contain_text("Does not fit into what is left")
    expect(size).to_contain_text("Reserves 201 tokens; 200 are left today")
    prompt.fill("a" * 7_604)
    expect(fit).to_contain_text("More than a whole day")
    prompt.fill("a" * 399)
    expect(fit).to_be_empty()

    assert page.evaluate("window.changes") == 3
    page.get_by_role("button", name="Submit").click()
    expect(page).to_have_url(JOB_PAGE)
    assert ReportJob.objects.get().token_estimate == 199


def test_a_form_from_the_browsers_memory_keeps_what_was_not_sent(tab: Tab):
    page = tab.open("/")
    page.get_by_label("Prompt").fill("not sent yet")
    key = page.locator("#key").input_value()

    page.evaluate(FROM_MEMORY)
    expect(page.get_by_label("Prompt")).to_have_value("not sent yet")
    page.locator("form").first.evaluate("form => form.noValidate = true")
    page.evaluate("document.getElementById('ask').dispatchEvent(new Event('submit'))")
    with page.expect_navigation():
        page.evaluate(FROM_MEMORY)

    # It was taken for sent, and no report's page has come: the same key again.
    expect(page.get_by_label("Prompt")).to_have_value("not sent yet")
    assert page.locator("#key").input_value() == key


def test_a_failed_report_is_tried_again_as_a_new_job(tab: Tab, ada: Api):
    job = job_in("failed", user=ada.user, prompt="\nonce more")
    page = tab.open(f"/jobs/{job.pk}/")

    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Submit").click()

    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    assert ReportJob.objects.exclude(pk=job.pk).get().prompt == "\nonce more"
