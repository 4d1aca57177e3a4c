"""Every page in light and dark, narrow and wide: no bar to anybody, no overflow. With pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from reports import transitions
from reports.errors import ErrorCode
from reports.provider import Failure
from tests.browser.texts import ARTICLE
from tests.support.processes import ROOT
from tests.support.rows import give_budget, job_in
from tests.webhooks.making import listening
from webhooks import outbox
from webhooks.models import WebhookDelivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Tab
    from tests.support.clients import Api

    Scene = Callable[[Tab, Api], object]

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PICTURES = ROOT / "var" / "screenshots"
LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (360, 1440)]
# Colours do not hang on width nor places on colour, so the two others would find nothing more.
SEARCHED = [("light", 360), ("dark", 1440)]
NARROWEST, WIDEST = 320, 3840
LONG_WORD = "https://example.org/" + "a" * 200
AXE = Axe()
# Of WCAG 2.2, and not asked for by itself.
ASKED = {"resultTypes": ["violations"], "rules": {"target-size": {"enabled": True}}}


def report(status: str, age_s: float = 75, **columns: object) -> Scene:
    """The page of a report in this state."""
    return lambda tab, ada: tab.open(
        f"/jobs/{job_in(status, user=ada.user, age_s=age_s, **columns).pk}/"
    )


def action(status: str, name: str) -> Scene:
    """A question before something is done."""
    return lambda tab, ada: tab.open(f"/jobs/{job_in(status, user=ada.user).pk}/{name}/")


def front(tab: Tab, ada: Api) -> None:
    """A form half filled in, and a history with every state."""
    give_budget(ada.user, daily_tokens=100_000, spent_tokens=31_234)
    cancelled = {"error_code": "cancelled", "http_status": 499}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("queued", {"prompt": "What do people who live at sea level dream of?"}),
        ("running", {"prompt": "Summarise the attached minutes in five sentences, " * 9}),
        ("succeeded", {"prompt": "Why is the sky blue?"}),
        ("failed", {"prompt": LONG_WORD}),
        ("failed", {"prompt": "לְמַה הַשָּׁמַיִם כְּחֻלִּים?", **cancelled}),
    ]
    for number, (status, columns) in enumerate(rows):
        job_in(status, user=ada.user, age_s=number * 90_000, **columns)
    for number in range(20):
        job_in("succeeded", user=ada.user, age_s=700_000 + number, prompt=f"Chapter {number}")
    tab.open("/").get_by_label("Prompt").fill("Why is the sky blue, and the sea grey?")


def life(tab: Tab, ada: Api) -> None:
    """What happened to a report that failed, unfolded."""
    job = job_in("queued", user=ada.user, prompt="long " * 300)
    held = transitions.claim(job.pk)
    assert held is not None
    detail = "The provider answered 503 Service Unavailable (it is overloaded or starting)."
    transitions.fail(held, Failure(ErrorCode.PROVIDER_5XX, 503, detail))
    tab.open(f"/jobs/{job.pk}/").get_by_text("What happened when").click()


def no_room(tab: Tab, ada: Api) -> None:
    """A prompt that does not fit."""
    give_budget(ada.user, daily_tokens=1_000, spent_tokens=999)
    tab.open("/").get_by_label("Prompt").fill("Longer than what is left of today.")


def refused(tab: Tab, ada: Api) -> None:
    """A prompt that was sent and did not fit."""
    no_room(tab, ada)
    tab.page.get_by_role("button", name="Submit").click()
    tab.page.locator("#problem").wait_for()


def sign_in(tab: Tab, _: Api) -> None:
    """After a wrong password."""
    tab.page.context.clear_cookies()
    tab.open("/login/?next=/jobs/")
    tab.page.get_by_label("Name").fill("ada")
    tab.page.get_by_label("Password").fill("wrong")
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.locator("#problem").wait_for()


def gone(tab: Tab, ada: Api) -> None:
    """The file of a text that was erased."""
    tab.open(f"/jobs/{job_in('succeeded', user=ada.user, **ERASED).pk}/text.md")


def tokens(tab: Tab, _: Api) -> None:
    """Right after one was made."""
    page = tab.open("/tokens/")
    page.get_by_label("What is it for?").fill("a nightly run")
    page.get_by_role("button", name="Make a token").click()
    page.locator("#token").wait_for()


def hooks(tab: Tab, _: Api) -> None:
    """An address that leads inside."""
    page = tab.open("/hooks/")
    page.get_by_label("Address").fill("https://127.0.0.1/hook")
    page.get_by_role("button", name="Make a webhook").click()
    page.locator("#problem").wait_for()


def hook(tab: Tab, ada: Api) -> None:
    """A webhook with an address that is long, and a message that was given up."""
    endpoint = listening(ada, LONG_WORD)
    job_in("failed", user=ada.user)
    outbox.note()
    WebhookDelivery.objects.update(
        state="failed", next_try_at=None, finished_at=endpoint.created_at, detail="It answered 500."
    )
    tab.open(f"/hooks/{endpoint.pk}/")


ERASED: dict[str, Any] = {"prompt": "", "result_text": "", "erased_at": "2026-01-02T03:04:05Z"}
SCENES: dict[str, Scene] = {
    "front": front,
    "front-empty": lambda tab, _: tab.open("/"),
    "front-no-room": no_room,
    "front-refused": refused,
    "job-queued": report("queued"),
    "job-running": report("running", prompt=f"Tell me of {LONG_WORD}"),
    "job-succeeded": report("succeeded", result_text=ARTICLE, finish_reason="length"),
    "job-verbatim": report("succeeded", result_text=">" * 99 + f" deep {LONG_WORD}"),
    "job-failed": life,
    "job-cancelled": report("failed", error_code="cancelled", http_status=499, settled_tokens=10),
    "job-erased": report("succeeded", **ERASED),
    "job-cancel": action("running", "cancel"),
    "job-erase": action("succeeded", "erase"),
    "tokens": tokens,
    "hooks": hooks,
    "hook": hook,
    "sign-in": sign_in,
    "sign-out": lambda tab, _: tab.open("/logout/"),
    "not-here": lambda tab, _: tab.open("/nowhere"),
    "gone": gone,
}


@pytest.mark.parametrize("name", SCENES)
def test_a_page_bars_nobody_and_fits(tab: Tab, ada: Api, name: str):
    SCENES[name](tab, ada)
    page = tab.page

    for scheme, width in LOOKS:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # of LOOKS
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=PICTURES / f"{name}-{scheme}-{width}.png", full_page=True)
        if (scheme, width) in SEARCHED:
            found = AXE.run(page, options=ASKED)
            assert found.violations_count == 0, found.generate_report()
    for width in (NARROWEST, WIDEST):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
