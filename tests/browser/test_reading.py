"""A text in a real browser: it can be read, taken along and printed, and it can do nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from reports import transitions
from reports.provider import Completion
from tests.browser.texts import ARTICLE, HOSTILE
from tests.support.rows import job_in

if TYPE_CHECKING:
    from playwright.sync_api import Page, Request

    from tests.browser.conftest import Tab
    from tests.support.clients import Api

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Every link that is there, clicked as a user would, and not followed to other machines.
CLICK_ALL = """() => {
  for (const link of document.querySelectorAll("#job .result a")) link.click();
}"""


def watch_for_harm(page: Page, address: str) -> list[str]:
    """Requests to other machines, dialogs and blocked attempts, as they come."""
    harm: list[str] = []

    def note(request: Request) -> None:
        if not request.url.startswith(address):
            harm.append(request.url)

    page.on("request", note)
    page.on("dialog", lambda dialog: harm.append(dialog.message))
    page.on("console", lambda message: harm.append(message.text))
    return harm


def test_a_hostile_text_does_nothing_when_it_comes_by_poll_and_when_it_is_opened(
    tab: Tab, ada: Api
):
    job = job_in("queued", user=ada.user, prompt=HOSTILE[0])
    page = tab.watch(job)
    harm = watch_for_harm(page, tab.address)
    # A link that led somewhere would leave the page; the browser is told to stay and say so.
    page.route("**/evil.example/**", lambda route: route.fulfill(status=204))
    held = transitions.claim(job.pk)
    assert held is not None

    transitions.succeed(held, Completion("\n\n".join(HOSTILE)))

    expect(page.get_by_role("heading", name="Ready")).to_be_visible()
    for _ in range(2):
        expect(page.locator("#job .result")).to_contain_text("<script>alert(1)</script>")
        assert page.locator("#job .result").locator("script, img, iframe, form, style").count() == 0
        assert page.evaluate("window.hurt") is None
        assert harm == []
        tab.open(f"/jobs/{job.pk}/")
    page.evaluate(CLICK_ALL)
    assert page.evaluate("window.hurt") is None
    assert page.url == f"{tab.address}/jobs/{job.pk}/"


def test_a_text_is_copied_and_downloaded_as_the_model_wrote_it(tab: Tab, ada: Api):
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.open(f"/jobs/{job_in('succeeded', user=ada.user, result_text=ARTICLE).pk}/")

    page.get_by_role("button", name="Copy").press("Enter")
    expect(page.get_by_role("button", name="Copied")).to_be_focused()
    expect(page.locator("#announcement")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == ARTICLE

    with page.expect_download() as download:
        page.get_by_role("link", name="Download").press("Enter")
    assert Path(download.value.path()).read_text() == ARTICLE
    assert download.value.suggested_filename.endswith(".md")


def test_where_a_page_may_not_copy_the_text_is_selected(tab: Tab, ada: Api):
    tab.page.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page = tab.open(f"/jobs/{job_in('succeeded', user=ada.user, result_text='All of *it*.').pk}/")

    page.get_by_role("button", name="Copy").click()

    expect(page.locator("#notice")).to_contain_text("The text is selected")
    assert page.evaluate("getSelection().toString().trim()") == "All of it."


def test_on_paper_there_is_the_text_and_no_button(tab: Tab, ada: Api):
    page = tab.open(
        f"/jobs/{job_in('succeeded', user=ada.user, prompt='long ' * 300, result_text=ARTICLE).pk}/"
    )

    page.emulate_media(media="print", color_scheme="dark")

    expect(page.get_by_text("Sunlight is a mixture")).to_be_visible()
    for name in ("Copy", "Download", "Sign out"):
        expect(page.get_by_text(name, exact=True)).to_be_hidden()
    body = page.locator("body")
    expect(body).to_have_css("color", "rgb(0, 0, 0)")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")


def test_nothing_moves_for_those_who_want_no_motion(tab: Tab, ada: Api):
    tab.page.emulate_media(reduced_motion="reduce")
    page = tab.open(f"/jobs/{job_in('running', user=ada.user).pk}/")

    moving = "document.getAnimations().length"
    assert page.evaluate(moving) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(moving) == 1
