"""A report's page that listens: states at once, and the text while the model is writing it."""

from __future__ import annotations

import json
from threading import Event
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from reports import transitions
from reports.provider import Completion
from tests.browser.conftest import Tab, sign_in
from tests.browser.test_polling import LISTEN
from tests.support.provider import Answer
from tests.support.rows import job_in
from tests.support.waiting import until
from tests.system.parts import published
from tools import valkey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]
WORDS = ["Once ", "upon \N{GRINNING FACE} a ", "time ", "there ", "was."]
HEADERS = {"Content-Type": "text/event-stream"}


@pytest.fixture
def address(processes: Processes) -> str:
    """Of a site with its process of events, which was started first."""
    port = str(valkey.free_port())
    processes.events(EVENTS_PORT=port)
    return processes.web(EVENTS_PORT=port)


@pytest.fixture
def listener(chromium: Browser, address: str, ada: Api) -> Iterator[Tab]:
    """Ada's tab on that site, with a real clock."""
    context = chromium.new_context()
    sign_in(context, ada, address)
    tab = Tab(context.new_page(), address, has_events=True)
    yield tab
    context.close()
    assert tab.complaints == []


def test_states_and_a_growing_text_are_shown_as_they_happen(
    processes: Processes, listener: Tab, ada: Api, provider: Provider
):
    told = [f"data: {json.dumps({'text': word})}\n\n" for word in WORDS]
    stream = "".join([*told, 'data: {"finish_reason": "stop"}\n\n'])
    is_seen = Event()
    waits = (len("".join(told[:2])), is_seen.is_set)
    provider.script(Answer(stream.encode(), headers=HEADERS, waits=waits))
    job = job_in("queued", user=ada.user)
    with listener.page.expect_response("**/events") as opened:
        page = listener.open(f"/jobs/{job.pk}/")
    assert opened.value.status == 200
    page.evaluate(LISTEN)
    until(lambda: page.evaluate("listening.isLive"))
    polls = len(listener.polls)

    worker = processes.worker(INFERENCE_URL=provider.url)
    published(job)
    growing = page.locator("#growing")
    expect(growing).to_be_visible()
    expect(growing).to_contain_text("Not finished")
    expect(growing.locator(".text")).to_have_text("Once upon \N{GRINNING FACE} a ")
    is_seen.set()
    expect(page.get_by_role("heading", name="Ready")).to_be_visible()

    expect(page.locator("#job .result")).to_have_text("".join(WORDS))
    expect(growing).to_have_count(0)
    assert page.evaluate("window.heard") == ["Your report is running.", "Your report is ready."]
    assert len(listener.polls) - polls <= 4
    worker.kill()


def test_when_the_process_of_events_dies_the_page_polls(
    processes: Processes, listener: Tab, ada: Api
):
    job = job_in("queued", user=ada.user)
    page = listener.open(f"/jobs/{job.pk}/")
    until(lambda: page.evaluate("listening.isLive"))

    processes.started[0].kill()
    until(lambda: not page.evaluate("listening.isLive"))
    held = transitions.claim(job.pk)
    assert held is not None
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    transitions.succeed(held, Completion("hello"))

    expect(page.get_by_role("heading", name="Ready")).to_be_visible()
