"""What is not there, said the same way in development and in production."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.support import html
from tests.support.rows import job_in

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("debug", [False, True])
def test_a_page_that_is_not_there_lists_no_route_and_stays_out_of_caches(
    browser: Client, bob: Api, settings: Settings, debug: bool
):
    settings.DEBUG = debug
    theirs = job_in("succeeded", user=bob.user).pk

    answers = [
        browser.get(path)
        for path in ("/nowhere", f"/jobs/{theirs}/", f"/jobs/{uuid4()}/", f"/jobs/{theirs}/text.md")
    ]

    for answer in answers:
        assert answer.status_code == 404
        assert "There is nothing here" in html.read(answer).words
    assert {answer.content for answer in answers} == {answers[0].content}
    for answer in answers[1:]:
        assert "no-store" in answer.headers["Cache-Control"]


def test_whatever_is_sent_to_nowhere_is_not_there(ada: Api):
    response = ada.browser().post("/nowhere", {"a": "b"}, headers={"Accept": "text/html"})

    assert response.status_code == 404
