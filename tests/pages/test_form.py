"""The form and its key: one intent is one job, and a refusal loses nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from reports.models import ReportJob
from reports.rehearsal import FAULTS
from tests.pages.paths import job_path, submit
from tests.support import html
from tests.support.expect import assert_nothing_written
from tests.support.rows import budget, give_budget, job_in

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db

EMOJI = "\N{GRINNING FACE}"


@pytest.mark.parametrize("path", ["/", "/jobs/{}/", "/jobs/{}/cancel/", "/jobs/{}/erase/"])
def test_pages_are_for_people_who_have_signed_in(ada: Api, path: str):
    path = path.format(job_in("queued", user=ada.user).pk)

    response = Client().get(path)

    assert response.status_code == 302
    assert response.headers["Location"] == f"/login/?next={path}"


def test_a_prompt_becomes_a_job_and_the_browser_is_sent_to_its_page(browser: Client):
    form = html.read(browser.get("/")).fields

    response = browser.post("/", {**form, "prompt": "Why is the sky blue?"})

    job = ReportJob.objects.get()
    assert (response.status_code, response.headers["Location"]) == (303, job_path(job))
    assert (job.prompt, job.idempotency_key) == ("Why is the sky blue?", form["key"])


def test_each_form_has_a_key_of_its_own(browser: Client):
    keys = {html.read(browser.get("/")).fields["key"] for _ in range(3)}

    assert len(keys) == 3


def test_the_same_form_sent_again_is_the_same_job(browser: Client, ada: Api):
    form = {**html.read(browser.get("/")).fields, "prompt": "once"}

    answers = [browser.post("/", form) for _ in range(3)]

    job = ReportJob.objects.get()
    assert [answer.headers["Location"] for answer in answers] == [job_path(job)] * 3
    assert budget(ada.user)["spent_tokens"] == job.token_estimate


def test_an_old_form_with_a_new_prompt_is_a_new_job_also_when_sent_twice(browser: Client):
    form = html.read(browser.get("/")).fields
    browser.post("/", {**form, "prompt": "first"})

    answers = [browser.post("/", {**form, "prompt": "second"}) for _ in range(2)]

    assert sorted(ReportJob.objects.values_list("prompt", flat=True)) == ["first", "second"]
    second = job_path(ReportJob.objects.get(prompt="second"))
    assert [answer.headers["Location"] for answer in answers] == [second, second]


def test_the_key_of_an_old_form_tells_nothing_of_the_prompt(browser: Client, settings):
    form = html.read(browser.get("/")).fields
    browser.post("/", {**form, "prompt": "first"})
    browser.post("/", {**form, "prompt": "second"})
    key = ReportJob.objects.get(prompt="second").idempotency_key
    ReportJob.objects.filter(prompt="second").delete()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another secret"

    browser.post("/", {**form, "prompt": "second"})

    assert ReportJob.objects.get(prompt="second").idempotency_key != key


def test_a_prompt_is_kept_as_it_was_typed_and_a_line_end_is_one_character(browser: Client):
    response = submit(browser, "\r\n  a\tb\r\n" + "c\r\n" * 3995 + "d ")

    assert response.status_code == 303
    assert ReportJob.objects.get().prompt == "\n  a\tb\n" + "c\n" * 3995 + "d "


def test_8000_emoji_fit(browser: Client):
    assert submit(browser, EMOJI * 8000).status_code == 303


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "The prompt is blank."),
        (" \r\n\t ", "The prompt is blank."),
        (EMOJI * 8001, "The prompt has 8001 characters; 8000 is the limit."),
        ("a\0b <b>", "The prompt holds a NUL"),
    ],
)
def test_a_prompt_that_does_not_fit_stays_in_the_form(browser: Client, prompt: str, words: str):
    form = html.read(browser.get("/")).fields

    with assert_nothing_written():
        response = browser.post("/", {**form, "prompt": prompt})

    page = html.read(response)
    assert response.status_code == 400
    assert words in page.words
    assert page.fields["prompt"] == prompt.replace("\r\n", "\n")
    assert page.fields["key"] == form["key"]
    assert page.attributes("prompt")["aria-invalid"] == "true"


@pytest.mark.parametrize(
    ("daily_tokens", "spent_tokens", "status", "words"),
    [
        (100, 98, 429, "2 of today's 100 are left"),
        (9, 0, 422, "more than the whole daily allowance of 9"),
    ],
)
def test_a_prompt_beyond_the_budget_stays_in_the_form(
    browser: Client, ada: Api, daily_tokens: int, spent_tokens: int, status: int, words: str
):
    give_budget(ada.user, daily_tokens=daily_tokens, spent_tokens=spent_tokens)

    with assert_nothing_written():
        response = submit(browser, "<i>forty characters of a prompt, or so</i>")

    page = html.read(response)
    assert response.status_code == status
    assert words in page.words
    assert page.fields["prompt"] == "<i>forty characters of a prompt, or so</i>"
    assert response.headers["RateLimit-Policy"] == f'"daily-tokens";q={daily_tokens};w=86400'


def test_too_many_active_jobs_are_told_in_the_form(browser: Client, ada: Api, settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 1
    job_in("queued", user=ada.user)

    response = submit(browser, "one more")

    assert response.status_code == 429
    assert "You have 1 jobs queued or running" in html.read(response).words


@pytest.mark.parametrize("key", ["", "  ", "clé", "x" * 256])
def test_a_form_with_a_broken_key_comes_back_whole(browser: Client, key: str):
    with assert_nothing_written():
        response = submit(browser, "a prompt", key=key)

    page = html.read(response)
    assert response.status_code == 400
    assert "Nothing was sent" in page.words
    assert browser.post("/", page.fields).status_code == 303
    assert ReportJob.objects.get().prompt == "a prompt"


def test_a_form_from_elsewhere_is_refused_in_words(ada: Api):
    client = Client(enforce_csrf_checks=True, headers={"Accept": "text/html"})
    client.force_login(ada.user)

    with assert_nothing_written():
        response = client.post("/", {"key": "k", "prompt": "p"})

    assert response.status_code == 403
    assert "This form is too old" in html.read(response).words


def test_the_form_works_with_its_token(ada: Api):
    client = Client(enforce_csrf_checks=True, headers={"Accept": "text/html"})
    client.force_login(ada.user)

    assert submit(client, "a prompt").status_code == 303


def test_try_again_fills_in_the_prompt_under_a_new_key(browser: Client, ada: Api):
    job = job_in("failed", user=ada.user, prompt="\nagain & <again>")
    link = html.read(browser.get(job_path(job))).attributes("again")["href"]

    form = html.read(browser.get(link or "")).fields

    assert form["prompt"] == "\nagain & <again>"
    assert form["key"] != job.idempotency_key


@pytest.mark.parametrize("again", ["nonsense", "01890000-0000-7000-8000-000000000000", "bob's"])
def test_try_again_knows_no_job_but_ones_own(browser: Client, bob: Api, again: str):
    job = job_in("failed", user=bob.user, prompt="secret")

    response = browser.get("/", {"again": str(job.pk) if again == "bob's" else again})

    assert response.status_code == 200
    assert html.read(response).fields["prompt"] == ""


@pytest.mark.parametrize("accept", ["text/html", "*/*", None], ids=["a browser", "curl", "nothing"])
def test_a_refused_form_comes_back_whatever_the_client_accepts(accept: str | None, ada: Api):
    give_budget(ada.user, daily_tokens=10, spent_tokens=10)
    client = Client(headers={"Accept": accept} if accept else {})
    client.force_login(ada.user)

    response = client.post("/", {"key": "a-key", "prompt": "kept while refused"})

    assert response.status_code == 429
    assert html.read(response).fields["prompt"].strip() == "kept while refused"


def test_the_form_offers_the_faults_of_the_rehearsal_in_development(
    browser: Client, settings: Settings
):
    settings.DEBUG = True
    offered = re.findall(r'href="(/\?rehearse=[^"]+)"', browser.get("/").content.decode())

    prompts = [html.read(browser.get(address)).fields["prompt"] for address in offered]

    markers = [re.search(r"\[\[rehearse:(\w+)", prompt) for prompt in prompts]
    assert [marker[1] for marker in markers if marker] == list(FAULTS)


def test_the_form_offers_no_faults_in_production(browser: Client, settings: Settings):
    settings.DEBUG = False

    assert b"rehearse" not in browser.get("/?rehearse=503").content
