"""Where pages are, and how a form is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import html

if TYPE_CHECKING:
    from django.test import Client

    from reports.models import ReportJob
    from tests.support.expect import Answer


def job_path(job: ReportJob) -> str:
    """A report's page."""
    return f"/jobs/{job.pk}/"


def fragment_path(job: ReportJob) -> str:
    """The part of it that is polled."""
    return f"/jobs/{job.pk}/fragment/"


def text_path(job: ReportJob) -> str:
    """Its text as a file."""
    return f"/jobs/{job.pk}/text.md"


def poll_of(response: Answer) -> str:
    """Where the element that polls would ask."""
    return html.read(response).attributes("poll")["hx-get"] or ""


def submit(browser: Client, prompt: str, **fields: str) -> Answer:
    """Fill in a fresh form and send it."""
    return browser.post("/", {**html.read(browser.get("/")).fields, "prompt": prompt, **fields})
