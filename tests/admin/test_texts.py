"""Prompts and texts in the admin: by a permission of their own, and each look written down."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from reports.conversation import Conversation, Message
from tests.admin.conftest import staff
from tests.admin.paths import JOBS, page_of
from tests.support import html
from tests.support.rows import job_in
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.test import Client

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db

OF_OTHERS = ("prompt", "result_text", "error_detail", "idempotency_key")
MARKUP = "<script>alert(1)</script>"


def test_no_list_shows_a_text(operator: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="my prompt", result_text="my text")

    for path in (JOBS, f"{JOBS}?q=ada", f"{JOBS}?q={job.pk}"):
        response = operator.get(path)
        assert response.status_code == 200
        assert b"my prompt" not in response.content
        assert b"my text" not in response.content


def test_texts_are_hidden_without_the_permission(watcher: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="my prompt", result_text="my text")

    with recorded() as statements:
        page = html.read(watcher.get(page_of(job)))

    assert "my prompt" not in page.words
    assert "my text" not in page.words
    assert "Hidden. To see them takes a permission of its own" in page.words
    assert not [statement for statement in statements if statement.startswith("INSERT")]


def test_a_look_at_texts_is_written_down_once_and_without_them(ada: Api, caplog):
    reader = staff("reader", "view_reportjob", "view_text")
    job = job_in("succeeded", user=ada.user, prompt="my prompt", result_text="my text")

    with caplog.at_level(logging.INFO):
        page = html.read(reader.get(page_of(job)))

    assert "my prompt" in page.words
    assert "my text" in page.words
    entry = LogEntry.objects.get()
    assert (entry.user.get_username(), entry.object_id) == ("reader", str(job.pk))
    assert entry.get_change_message() == "Looked at, with its texts."
    (line,) = [record.getMessage() for record in caplog.records if "looked" in record.getMessage()]
    assert line == f"operator {entry.user_id}: job {job.pk} looked at, with its texts"
    assert "my " not in caplog.text


def test_who_may_see_texts_sees_all_that_a_response_was_asked(ada: Api):
    reader = staff("reader", "view_reportjob", "view_text")
    asked = Conversation(
        messages=(Message("developer", "no rhymes"), Message("user", "why?")),
        instructions="be kind",
    )
    job = job_in("succeeded", user=ada.user, prompt="why?", openai_request=asked.kept())

    page = html.read(reader.get(page_of(job)))

    assert "instructions: be kind developer: no rhymes user: why?" in page.words


def test_an_erased_job_says_so_and_is_no_look(operator: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="", result_text="", erased_at=timezone.now())

    page = html.read(operator.get(page_of(job)))

    assert "Erased for good." in page.words
    assert "Succeeded, erased" in html.read(operator.get(JOBS)).words
    assert not LogEntry.objects.exists()


def test_markup_in_texts_keys_and_details_does_nothing(operator: Client, ada: Api):
    texts: dict[str, Any] = dict.fromkeys(
        ("prompt", "result_text", "error_detail", "idempotency_key"), MARKUP
    )
    job = job_in("failed", user=ada.user, **texts)

    for path in (JOBS, page_of(job)):
        response = operator.get(path)
        assert MARKUP.encode() not in response.content
    assert html.read(operator.get(page_of(job))).words.count(MARKUP) == len(texts)


def test_a_text_is_shown_to_the_letter(operator: Client, ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="  two\n\n  lines", result_text="a\tb")

    response = operator.get(page_of(job))

    assert b">  two\n\n  lines</pre>" in response.content
    assert b">a\tb</pre>" in response.content


def test_a_job_without_a_text_shows_none(operator: Client, ada: Api):
    page = html.read(operator.get(page_of(job_in("queued", user=ada.user))))

    assert page.words.count("None") == 0
