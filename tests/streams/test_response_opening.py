"""GET /v1/responses/{id}?stream=true as Django answers it, read by the openai SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from django.db import connections
from django.test import Client

from reports import ids
from streams import rows
from streams.openai import OPENAI
from streams.ours import OURS
from tests.responses.calls import assert_error, path_of
from tests.support import sdk
from tests.support.rows import job_in
from tests.support.statements import recorded

if TYPE_CHECKING:
    from reports.models import ReportJob
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
TEXT = "a t\N{LATIN SMALL LETTER E WITH ACUTE}xt \N{GRINNING FACE}\nin lines"
STREAM = {"stream": "true"}


def streamed(api: Api, job: ReportJob, **params: Any) -> list[Any]:
    """The events that the SDK reads."""
    client = sdk.inside(api)
    return list(client.responses.retrieve(ids.response_id(job.pk), stream=True, **params))


def opening(job: ReportJob, query: str = "stream=true") -> str:
    """Where its events are."""
    return f"{path_of(job)}?{query}"


def test_the_sdk_puts_a_response_together_from_its_events(ada: Api):
    job = job_in("succeeded", user=ada.user, result_text=TEXT)
    client = sdk.inside(ada)

    with client.responses.stream(response_id=ids.response_id(job.pk)) as stream:
        grown = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()

    assert grown == [TEXT]
    assert final.output_text == TEXT
    polled = client.responses.retrieve(ids.response_id(job.pk))
    assert (final.status, final.usage, final.id) == (polled.status, polled.usage, polled.id)


def test_the_sdk_goes_on_behind_every_event(ada: Api):
    job = job_in("succeeded", user=ada.user, result_text=TEXT)
    whole = streamed(ada, job)

    for place, event in enumerate(whole):
        assert streamed(ada, job, starting_after=event.sequence_number) == whole[place + 1 :]


@pytest.mark.parametrize(
    ("status", "kinds"),
    [
        ("queued", ["response.created", "response.queued"]),
        ("running", ["response.created", "response.queued", "response.in_progress"]),
        (
            "failed",
            [
                "response.created",
                "response.queued",
                "response.in_progress",
                "response.failed",
            ],
        ),
    ],
)
def test_a_stream_begins_with_what_has_happened(ada: Api, status: str, kinds: list[str]):
    events = streamed(ada, job_in(status, user=ada.user))

    assert [event.type for event in events] == kinds
    assert events[0].response.status == "queued"


def test_its_head_is_that_of_a_stream_whatever_a_client_accepts(ada: Api):
    job = job_in("succeeded", user=ada.user)
    path = opening(job)

    for accepted in ("application/json", "text/event-stream", "*/*"):
        answer = ada.get(path, Accept=accepted)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert answer.headers["Cache-Control"] == "private, no-store"
        assert answer.headers["X-Accel-Buffering"] == "no"
    assert ada.get(opening(job, "stream=True")).content == ada.get(path).content
    assert ada.get(path).content.startswith(b"event: response.created\ndata: {")
    assert ada.get(path, Accept="image/png").status_code == 406
    assert ada.request("HEAD", path).content == b""
    assert ada.browser().get(path).status_code == 200


def test_without_a_stream_it_is_the_response(ada: Api):
    job = job_in("succeeded", user=ada.user)

    for query in (
        "",
        "stream=false",
        "starting_after=3",
        "stream=True&stream=False",
        "starting_after=2147483647",
    ):
        answer = ada.get(opening(job, query))
        assert answer.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("stream=yes", "stream"),
        ("stream=", "stream"),
        ("stream=true&starting_after=-1", "starting_after"),
        ("stream=true&starting_after=", "starting_after"),
        ("stream=true&starting_after=1.5", "starting_after"),
        ("stream=true&starting_after=\N{ARABIC-INDIC DIGIT ONE}", "starting_after"),
        ("starting_after=2147483648", "starting_after"),
    ],
)
def test_what_is_no_number_is_refused_in_the_envelope(ada: Api, query: str, param: str):
    job = job_in("running", user=ada.user)

    assert_error(ada.get(opening(job, query)), 400, "invalid_request", param)


def test_what_is_not_there_is_not_found_for_the_sdk(ada: Api, bob: Api):
    theirs = job_in("running", user=bob.user)

    with pytest.raises(openai.NotFoundError):
        streamed(ada, theirs)
    assert_error(ada.get("/v1/responses/none?stream=true"), 404, "not_found")
    assert Client().get(opening(job_in("running", user=ada.user))).status_code == 401


def test_an_opening_costs_what_a_poll_costs(ada: Api):
    job = job_in("running", user=ada.user)

    with recorded() as statements:
        ada.get(opening(job))

    assert statements == ["SELECT access_token", "SELECT reports_reportjob"]


def test_both_dialects_of_a_job_are_read_at_once(ada: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connections, "close_all", lambda: None)  # it is the test's own
    job = job_in("running", user=ada.user)

    with recorded() as statements:
        found = rows.states([(job.pk, OURS), (job.pk, OPENAI), (ids.uuid7(), OPENAI)])

    assert statements == ["SELECT reports_reportjob"]
    ours, theirs, nobodys = found.values()
    assert ours is not None
    assert theirs is not None
    assert nobodys is None
    assert ours.word == theirs.word
    assert ours.said.startswith(b"id: ")
    assert len(theirs.said.before) == 3
