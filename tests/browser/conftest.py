"""Chromium, and people who sit in front of it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Request
    from pytest_django.live_server_helper import LiveServer

    from reports.models import ReportJob
    from tests.support.clients import Api

# The sandbox needs rights that containers withhold, and nothing here may look for other machines.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 30_000
FRAGMENT = "**/fragment/**"
EVENTS = "**/events"
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for a module: its event loop must not meet those of other tests."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("no Chromium on PATH; on Debian: apt-get install chromium")
    with pytest.MonkeyPatch.context() as environment, sync_playwright() as playwright:
        # Its loop runs in this thread, so Django takes the queries of these tests for async code.
        environment.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass(slots=True)
class Tab:
    """One signed-in page, the polls that it sent, and what its scripts complained about."""

    page: Page
    address: str
    has_events: bool = False  # without them it is as with a process of events that is down
    polls: list[Request] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        def note(request: Request) -> None:
            if "/fragment/" in request.url:
                self.polls.append(request)

        self.page.set_default_timeout(PATIENCE_MS)
        # A function: Playwright wants to hang its wrapper on a method's object.
        self.page.on("request", note)
        if not self.has_events:
            self.page.route(EVENTS, lambda route: route.fulfill(status=503))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str) -> Page:
        """Go to a path of ours."""
        self.page.goto(f"{self.address}{path}")
        return self.page

    def watch(self, job: ReportJob) -> Page:
        """Open a report's page and stay until it has polled once."""
        self.open(f"/jobs/{job.pk}/")
        self.poll(1)
        return self.page

    def poll(self, times: int) -> None:
        """Turn the clock until this many more polls are answered."""
        for _ in range(times):
            with self.page.expect_response(FRAGMENT):
                self.page.clock.run_for(2_000)


def sign_in(context: BrowserContext, user: Api, address: str) -> None:
    """Give the browser the cookie of a session."""
    client = Client()
    client.force_login(user.user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME]
    context.add_cookies([{"name": cookie.key, "value": cookie.value, "url": address}])


@pytest.fixture
def tab(chromium: Browser, live_server: LiveServer, ada: Api) -> Iterator[Tab]:
    """Ada's, whose clock can be turned; no script on it may have failed when the test ends."""
    context = chromium.new_context()
    sign_in(context, ada, live_server.url)
    page = context.new_page()
    page.clock.install()
    tab = Tab(page, live_server.url)
    yield tab
    context.close()
    assert tab.complaints == []


@pytest.fixture
def plain_tab(chromium: Browser, live_server: LiveServer, ada: Api) -> Iterator[Tab]:
    """Ada's, in a browser that runs no scripts."""
    context = chromium.new_context(java_script_enabled=False)
    sign_in(context, ada, live_server.url)
    yield Tab(context.new_page(), live_server.url)
    context.close()
