"""From a prompt to its text in a real browser: with scripts, without, twice, and after Back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from reports import transitions
from reports.models import ReportJob
from reports.provider import Completion
from tests.support.rows import job_in

if TYPE_CHECKING:
    from tests.browser.conftest import Tab
    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

EMOJI = "\N{GRINNING FACE}"
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


def test_a_failed_report_is_tried_again_as_a_new_job(tab: Tab, ada: Api):
    job = job_in("failed", user=ada.user, prompt="\nonce more")
    page = tab.open(f"/jobs/{job.pk}/")

    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Submit").click()

    expect(page.get_by_role("heading", name="Waiting")).to_be_visible()
    assert ReportJob.objects.exclude(pk=job.pk).get().prompt == "\nonce more"
