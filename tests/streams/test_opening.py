"""The opening of a stream, as Django answers it: what GET would say, and where a client stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

from reports import transitions
from reports.models import ReportJob
from tests.support.rows import job_in
from tests.support.sse import parse
from tests.support.statements import recorded

if TYPE_CHECKING:
    from django.http import HttpResponse

    from tests.support.clients import Api
    from tests.support.sse import Event

pytestmark = pytest.mark.django_db
UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"
ASKED = {"Accept": "text/event-stream"}


def events_in(answer: HttpResponse) -> list[Event]:
    """What a client would dispatch."""
    return list(parse(iter(answer.content.decode().split("\n"))))


def without_allow(answer: HttpResponse) -> dict[str, str]:
    """Its headers but the one that tells the methods of its path."""
    return {name: text for name, text in answer.headers.items() if name != "Allow"}


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed"])
def test_the_first_event_is_what_get_says(ada: Api, status: str):
    job = job_in(status, user=ada.user)

    answer = ada.get(f"/reports/{job.pk}/events", **ASKED)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "private, no-store"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.content.startswith(b"retry: 2000\n\n")
    [event] = events_in(answer)
    assert event.kind == "status"
    assert event.data == ada.get(f"/reports/{job.pk}").json()  # type: ignore[attr-defined]


def test_who_has_seen_the_present_state_is_not_told_again(ada: Api):
    job = job_in("running", user=ada.user)
    path = f"/reports/{job.pk}/events"
    [event] = events_in(ada.get(path))

    again = ada.get(path, Last_Event_ID=event.mark)

    assert again.status_code == 200
    assert again.content == b"retry: 2000\n\n"


def test_who_has_seen_the_end_is_told_not_to_come_back(ada: Api):
    job = job_in("succeeded", user=ada.user)
    path = f"/reports/{job.pk}/events"
    [event] = events_in(ada.get(path))

    again = ada.get(path, Last_Event_ID=event.mark)

    assert (again.status_code, again.content) == (204, b"")


@pytest.mark.parametrize("mark", ["", "nonsense", "1-queued", "9" * 40, "1-queued-x", "ü"])
def test_who_has_seen_something_else_is_told_the_present_state(ada: Api, mark: str):
    job = job_in("succeeded", user=ada.user)

    answer = ada.get(f"/reports/{job.pk}/events", Last_Event_ID=mark)

    assert [event.data["status"] for event in events_in(answer)] == ["succeeded"]


@pytest.mark.parametrize("job_id", [UNKNOWN, "none", "a/b", "%00"])
def test_what_does_not_exist_is_the_same_404_as_for_get(ada: Api, job_id: str):
    ours, get = ada.get(f"/reports/{job_id}/events", **ASKED), ada.get(f"/reports/{job_id}")

    assert ours.status_code == 404
    assert (ours.content, without_allow(ours)) == (get.content, without_allow(get))


def test_somebody_elses_job_does_not_exist(ada: Api, bob: Api):
    job = job_in("running", user=bob.user)

    ours, get = ada.get(f"/reports/{job.pk}/events", **ASKED), ada.get(f"/reports/{job.pk}")

    assert ours.status_code == 404
    assert (ours.content, without_allow(ours)) == (get.content, without_allow(get))


def test_a_stranger_and_an_erased_job_are_answered_as_for_get(ada: Api):
    job = job_in("succeeded", user=ada.user)
    path = f"/reports/{job.pk}"
    strange, strange_get = Client().get(f"{path}/events", headers=ASKED), Client().get(path)
    transitions.erase(ReportJob.objects.get())
    erased, erased_get = ada.get(f"{path}/events", **ASKED), ada.get(path)

    assert (strange.status_code, erased.status_code) == (401, 410)
    assert strange.headers["WWW-Authenticate"] == "Bearer"
    assert (strange.content, erased.content) == (strange_get.content, erased_get.content)
    assert erased.headers["Content-Type"] == "application/problem+json"


def test_a_session_may_listen_and_head_and_other_methods_are_as_usual(ada: Api):
    path = f"/reports/{job_in('running', user=ada.user).pk}/events"

    session = ada.browser().get(path, headers=ASKED)
    head = ada.request("HEAD", path)
    post = ada.request("POST", path, data=b"{}", content_type="application/json")
    picture = ada.get(path, Accept="image/png")

    assert session.status_code == 200
    assert (head.status_code, head.content) == (200, b"")
    assert (post.status_code, post.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert picture.status_code == 406


def test_an_opening_costs_what_a_poll_costs(ada: Api):
    job = job_in("running", user=ada.user)

    with recorded() as statements:
        ada.get(f"/reports/{job.pk}/events", **ASKED)

    assert statements == ["SELECT access_token", "SELECT reports_reportjob"]
