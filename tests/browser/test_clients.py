"""The programs of docs/clients.md, run as they stand there: one site, and each does its job."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reports.models import ReportJob
from tests.browser.conftest import PATIENCE_MS, sign_in
from tests.support.processes import ROOT
from tests.support.provider import Answer
from tools import valkey

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.django_db(transaction=True),
]
TEXT = "Of all light, blue is scattered most."
STREAMED = Answer(
    f'data: {{"text": "{TEXT}"}}\n\ndata: {{"finish_reason": "stop"}}\n\n'.encode(),
    headers={"Content-Type": "text/event-stream"},
)
RUN = {"sh": ["sh", "-euc"], "python": [sys.executable, "-c"]}


def programs() -> dict[str, tuple[str, str]]:
    """By heading: a language, and all its blocks there as one program."""
    found = {}
    for section in (ROOT / "docs" / "clients.md").read_text().split("\n## ")[1:]:
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        if blocks:
            [language] = {language for language, _ in blocks}
            found[section.partition("\n")[0]] = language, "\n".join(code for _, code in blocks)
    return found


def in_browser(chromium: Browser, ada: Api, address: str, program: str) -> str:
    """Run it on the front page until it tells the text; what it told."""
    context = chromium.new_context()
    sign_in(context, ada, address)
    page = context.new_page()
    page.goto(address)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    with page.expect_console_message(lambda message: message.text == TEXT, timeout=PATIENCE_MS):
        page.evaluate(f"async () => {{ {program} }}")
    context.close()
    return "\n".join(said)


def test_what_stands_in_the_document_does_the_job(
    processes: Processes, chromium: Browser, ada: Api, provider: Provider
):
    provider.script(STREAMED)
    port = str(valkey.free_port())
    processes.worker(INFERENCE_URL=provider.url)
    processes.events(EVENTS_PORT=port)
    address = processes.web(EVENTS_PORT=port)
    environment = {**processes.environment, "URL": address, "TOKEN": ada.token}

    for heading, (language, program) in programs().items():
        if language == "js":
            said = in_browser(chromium, ada, address, program)
        else:
            done = subprocess.run(
                [*RUN[language], program],
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert (done.returncode, done.stderr) == (0, ""), f"{heading}: {done.stderr}"
            said = done.stdout
        assert TEXT in said, f"{heading}: {said}"

    jobs = ReportJob.objects.values_list("status", flat=True)
    assert list(jobs) == ["succeeded"] * len(programs())
    assert len(provider.calls) == len(programs()) == 4
