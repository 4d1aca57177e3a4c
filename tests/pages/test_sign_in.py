"""Signing in and out, and what the pages say when something breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler
from django.http import HttpResponse
from django.test import Client, RequestFactory

from reports import pages
from reports.models import ReportJob
from tests.pages.paths import job_path
from tests.support import html
from tests.support.rows import job_in

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


def test_sign_in_leads_back_to_where_one_was(ada: Api):
    ada.user.set_password("a password of hers")
    ada.user.save()
    job = job_in("queued", user=ada.user)
    client = Client(enforce_csrf_checks=True)
    form = html.read(client.get(f"/login/?next={job_path(job)}")).fields

    response = client.post("/login/", {**form, "username": "ada", "password": "a password of hers"})

    assert (response.status_code, response.headers["Location"]) == (302, job_path(job))
    assert html.read(client.get(job_path(job))).has("poll")


def test_a_wrong_password_is_told(ada: Api):
    response = Client().post("/login/", {"username": "ada", "password": "no", "next": "/"})

    page = html.read(response)
    assert "do not match" in page.words
    assert page.fields["username"] == "ada"
    assert page.fields["password"] == ""


def test_signing_out_takes_a_form(browser: Client):
    assert browser.get("/logout/").status_code == 405
    assert browser.get("/").status_code == 200

    assert browser.post("/logout/").headers["Location"] == "/login/"
    assert browser.get("/").status_code == 302


def test_a_database_that_is_away_is_a_503_in_words(rf: RequestFactory, tmp_path: Path):
    nowhere = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "no folder" / "file"}

    response = HttpResponse()
    try:
        ConnectionHandler({"default": nowhere})["default"].ensure_connection()
    except OperationalError:
        response = pages.broken(rf.get("/"))

    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert "cannot reach its database" in html.read(response).words


def test_a_fault_of_ours_is_a_500_without_its_details(browser: Client, ada: Api):
    job = job_in("failed", user=ada.user)
    ReportJob.objects.filter(pk=job.pk).update(error_code="unheard_of")
    browser.raise_request_exception = False

    response = browser.get(job_path(job))

    assert response.status_code == 500
    assert "Something broke on our side" in html.read(response).words
    assert "unheard_of" not in response.content.decode()


def test_the_model_of_make_up_comes_with_a_warning(browser: Client, settings):
    settings.INFERENCE_MODEL = "gemma-3-270m"

    assert "its prose is poor" in html.read(browser.get("/")).words
