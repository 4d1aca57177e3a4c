"""The text as a file: what the model wrote, byte for byte, for its owner alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.test import Client

from tests.pages.paths import job_path, text_path
from tests.support import html
from tests.support.rows import job_in

if TYPE_CHECKING:
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db

TEXT = "\n# Pourquoi ?\r\n\n* 🌌 <b>\t\n"
ERASED: dict[str, Any] = {"prompt": "", "result_text": "", "erased_at": "2026-01-02T03:04:05Z"}


def test_the_file_is_the_text_as_the_model_wrote_it(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, result_text=TEXT)

    response = browser.get(text_path(job))

    assert response.content == TEXT.encode()
    assert response.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert response.headers["Content-Disposition"] == f'attachment; filename="report-{job.pk}.md"'
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in response.headers["Cache-Control"]


def test_the_page_offers_it_once_it_is_there(browser: Client, ada: Api):
    ready, failed = job_in("succeeded", user=ada.user), job_in("failed", user=ada.user)

    page = html.read(browser.get(job_path(ready)))

    assert page.attributes("download")["href"] == text_path(ready)
    assert page.attributes("copy")["data-source"] == text_path(ready)
    assert not html.read(browser.get(job_path(failed))).has("download")


@pytest.mark.parametrize("status", ["queued", "running", "failed"])
def test_a_report_without_a_text_has_no_file(browser: Client, ada: Api, status: str):
    assert browser.get(text_path(job_in(status, user=ada.user))).status_code == 404


def test_an_erased_text_is_gone_in_words(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, **ERASED)

    response = browser.get(text_path(job))

    assert response.status_code == 410
    assert "This text was erased" in html.read(response).words


def test_somebody_elses_file_looks_like_one_that_never_was(browser: Client, bob: Api):
    theirs = browser.get(text_path(job_in("succeeded", user=bob.user)))
    erased = browser.get(text_path(job_in("succeeded", user=bob.user, **ERASED)))
    nobodys = browser.get(f"/jobs/{uuid4()}/text.md")

    assert theirs.status_code == 404
    assert theirs.content == erased.content == nobodys.content


def test_a_stranger_is_led_to_sign_in_and_back(ada: Api):
    job = job_in("succeeded", user=ada.user)

    response = Client().get(text_path(job))

    assert response.headers["Location"] == f"/login/?next={text_path(job)}"


def test_it_is_only_read(browser: Client, ada: Api):
    assert browser.post(text_path(job_in("succeeded", user=ada.user))).status_code == 405
