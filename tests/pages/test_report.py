"""One report's page: every state in words, inert markup, nobody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from reports import transitions
from reports.errors import ErrorCode
from reports.models import Status
from reports.provider import Completion
from reports.templatetags import report_words
from reports.timeline import What
from tests.pages.paths import fragment_path, job_path
from tests.support import html
from tests.support.rows import job_in

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)><a href='javascript:alert(3)'>x</a>"


def assert_no_copy_is_kept(response: Answer) -> None:
    assert {"private", "no-store"} <= set(response.headers["Cache-Control"].split(", "))


@pytest.mark.parametrize(
    ("status", "columns", "state", "words"),
    [
        ("queued", {}, "queued", "Next in line. Waiting for 5 s."),
        ("running", {}, "running", "The model has been at work for 5 s."),
        ("succeeded", {"result_text": "It scatters."}, "succeeded", "It scatters."),
        ("succeeded", {"finish_reason": "length"}, "succeeded", "so this text is cut off."),
        ("failed", {}, "failed", "reported a fault of its own. It answered 503."),
        ("failed", {}, "failed", "The 10 reserved tokens were given back."),
        ("failed", {}, "failed", "provider_5xx, HTTP 503"),
        ("failed", {"error_code": "cancelled", "http_status": 499}, "cancelled", "stopped"),
        (
            "failed",
            {"error_code": "cancelled", "settled_tokens": 10},
            "cancelled",
            "not given back",
        ),
        (
            "succeeded",
            {"erased_at": timezone.now(), "prompt": ""},
            "erased",
            "cannot be brought back",
        ),
    ],
)
def test_a_page_tells_the_state_in_words(
    browser: Client, ada: Api, status: str, columns: dict[str, object], state: str, words: str
):
    job = job_in(status, user=ada.user, age_s=5, **columns)

    page = html.read(browser.get(job_path(job)))

    assert words in page.words
    assert page.attributes("job")["data-state"] == state


def test_a_text_that_is_whole_is_not_called_cut_off(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user)

    assert "cut off" not in html.read(browser.get(job_path(job))).words


@pytest.mark.parametrize(("older", "words"), [(1, "1 older report first"), (2, "2 older reports")])
def test_a_waiting_report_tells_how_many_are_older(
    browser: Client, ada: Api, bob: Api, older: int, words: str
):
    for _ in range(older):
        job_in("queued", user=bob.user, age_s=60)
    job = job_in("queued", user=ada.user)

    assert words in html.read(browser.get(job_path(job))).words


def test_every_error_code_has_words_of_its_own():
    assert set(report_words.REASONS) == set(ErrorCode)
    assert len(set(report_words.REASONS.values())) == len(ErrorCode)


def test_every_step_has_words_of_its_own():
    assert set(report_words.STEPS) == set(What)
    assert len(set(report_words.STEPS.values())) == len(What)


def test_a_page_tells_what_happened_when(browser: Client, ada: Api):
    job = job_in("queued", user=ada.user)
    held = transitions.claim(job.pk)
    assert held is not None
    transitions.succeed(held, Completion("a text"))

    page = html.read(browser.get(job_path(job)))

    order = ["Accepted, 10 tokens reserved", "Taken up by a worker", "Ready, 6 of 10 reserved"]
    places = [page.words.index(words) for words in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59, "59 s"), (75, "1 min 15 s"), (7325, "2 h 2 min")]
)
def test_durations_are_told_as_people_do(seconds: int, words: str):
    assert report_words.duration(seconds) == words


def test_markup_in_texts_is_shown_and_does_nothing(browser: Client, ada: Api):
    ready = job_in("succeeded", user=ada.user, prompt=MARKUP, result_text=MARKUP)
    failed = job_in("failed", user=ada.user, prompt=MARKUP, error_detail=MARKUP)
    again = f"/?again={ready.pk}"
    paths = [
        job_path(ready),
        fragment_path(ready),
        job_path(failed),
        fragment_path(failed),
        "/",
        again,
    ]

    for path in paths:
        response = browser.get(path)
        page = html.read(response)
        assert "<script>alert(1)</script>" in page.words + page.fields.get("prompt", "")
        assert not [tag for tag, _ in page.tags if tag == "img"]
        assert not page.links("javascript:")
        scripts = [attributes for tag, attributes in page.tags if tag == "script"]
        assert all(attributes.get("src", "") for attributes in scripts)


def test_no_page_needs_an_inline_script_or_style(browser: Client, ada: Api):
    job = job_in("queued", user=ada.user)

    for path in ("/", job_path(job), f"{job_path(job)}cancel/"):
        response = browser.get(path)
        page = html.read(response)
        assert "unsafe" not in response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert not [tag for tag, _ in page.tags if tag == "style"]
        names = {name for _, attributes in page.tags for name in attributes}
        assert not [name for name in names if name == "style" or name.startswith("on")]


def test_nobody_keeps_a_copy_of_a_page(browser: Client, ada: Api):
    job = job_in("succeeded", user=ada.user)

    for path in ("/", job_path(job), fragment_path(job), f"{job_path(job)}erase/"):
        assert_no_copy_is_kept(browser.get(path))
    assert_no_copy_is_kept(Client().get("/login/"))


@pytest.mark.parametrize("path", ["/jobs/{}/", "/jobs/{}/fragment/", "/jobs/{}/cancel/"])
def test_somebody_elses_report_looks_like_one_that_never_was(browser: Client, bob: Api, path: str):
    theirs = browser.get(path.format(job_in("succeeded", user=bob.user).pk))
    nobodys = browser.get(path.format(uuid4()))

    assert (theirs.status_code, nobodys.status_code) == (404, 404)
    assert theirs.content == nobodys.content
    assert "There is nothing here" in html.read(theirs).words


def test_an_address_may_lose_its_last_slash(browser: Client, ada: Api):
    path = job_path(job_in("succeeded", user=ada.user))

    assert html.read(browser.get(path.rstrip("/"))).words == html.read(browser.get(path)).words
    assert browser.get("/admin").headers["Location"] == "/admin/"


@pytest.mark.parametrize("path", ["/jobs/nonsense/", "/?before=nonsense", "/jobs/"])
def test_an_address_that_makes_no_sense_is_a_404(browser: Client, path: str):
    assert browser.get(path).status_code == 404


@pytest.mark.parametrize("status", Status.values)
def test_without_scripts_a_page_refreshes_itself_until_the_end(
    browser: Client, ada: Api, status: str
):
    job = job_in(status, user=ada.user)

    page = html.read(browser.get(job_path(job)))

    refreshes = [attributes for _, attributes in page.tags if "http-equiv" in attributes]
    is_active = status in {"queued", "running"}
    assert [refresh["content"] for refresh in refreshes] == (["3"] if is_active else [])
    assert page.has("poll") == is_active
