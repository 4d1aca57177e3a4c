"""Cancel and erase: ask first, then act once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pages.paths import job_path
from tests.support import html
from tests.support.expect import assert_unchanged
from tests.support.rows import budget, job_in

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("status", "words"), [("queued", "are given back"), ("running", "are not given back")]
)
def test_cancel_asks_before_it_acts(browser: Client, ada: Api, status: str, words: str):
    job = job_in(status, user=ada.user)

    with assert_unchanged(job):
        response = browser.get(f"{job_path(job)}cancel/")

    assert words in html.read(response).words


@pytest.mark.parametrize(("status", "spent_tokens"), [("queued", 0), ("running", 10)])
def test_cancel_ends_the_job(browser: Client, ada: Api, status: str, spent_tokens: int):
    job = job_in(status, user=ada.user)

    response = browser.post(f"{job_path(job)}cancel/", follow=True)

    assert response.redirect_chain == [(job_path(job), 303)]
    assert html.read(response).attributes("job")["data-state"] == "cancelled"
    assert budget(ada.user)["spent_tokens"] == spent_tokens


def test_cancel_after_the_end_changes_nothing_and_says_so(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user)

    with assert_unchanged(job):
        asked = browser.get(f"{job_path(job)}cancel/")
        response = browser.post(f"{job_path(job)}cancel/", follow=True)

    assert "nothing to cancel" in html.read(asked).words
    assert "already ended" in html.read(response).words


def test_erase_asks_before_it_acts(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user)

    with assert_unchanged(job):
        response = browser.get(f"{job_path(job)}erase/")

    assert "deleted for good" in html.read(response).words


def test_erase_takes_the_texts_off_every_page(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="my prompt", result_text="my text")

    response = browser.post(f"{job_path(job)}erase/", follow=True)

    assert response.redirect_chain == [(job_path(job), 303)]
    for page in (html.read(response), html.read(browser.get("/"))):
        assert "Erased" in page.words
        assert "my prompt" not in page.words
        assert "my text" not in page.words


def test_erase_before_the_end_changes_nothing_and_says_so(browser: Client, ada: Api):
    job = job_in("running", user=ada.user)

    with assert_unchanged(job):
        asked = browser.get(f"{job_path(job)}erase/")
        response = browser.post(f"{job_path(job)}erase/", follow=True)

    assert "has not ended yet" in html.read(asked).words
    assert "has not ended yet" in html.read(response).words


@pytest.mark.parametrize("act", ["cancel", "erase"])
def test_nobody_acts_on_somebody_elses_report(browser: Client, bob: Api, act: str):
    job = job_in("queued" if act == "cancel" else "succeeded", user=bob.user)

    with assert_unchanged(job):
        response = browser.post(f"{job_path(job)}{act}/")

    assert response.status_code == 404
