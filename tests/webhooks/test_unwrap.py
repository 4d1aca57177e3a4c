"""Endings of /v1/responses, as the unmodified openai SDK unwraps them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from openai import InvalidWebhookSignatureError, OpenAI
from openai.types import webhooks as types

from reports import ids
from reports.errors import ErrorCode
from tests.support.expect import body_of
from tests.support.rows import job_in
from tests.webhooks.making import all_deliveries, attempt, call, listening, make
from webhooks import outbox

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db
ALONE = pytest.mark.django_db(transaction=True)
URL = "https://hooks.example/"
ASKED: dict[str, Any] = {
    "openai_request": {}
}  # the row of a job of /v1/responses whose texts are gone
ENDINGS: list[tuple[str, dict[str, Any], type[object]]] = [
    ("succeeded", {}, types.ResponseCompletedWebhookEvent),
    ("succeeded", {"finish_reason": "length"}, types.ResponseIncompleteWebhookEvent),
    ("failed", {}, types.ResponseFailedWebhookEvent),
    ("failed", {"error_code": ErrorCode.CANCELLED}, types.ResponseCancelledWebhookEvent),
]


def sdk(secret: str) -> OpenAI:
    """A client that calls nobody."""
    return OpenAI(api_key="none", base_url="http://127.0.0.1:1/v1", webhook_secret=secret)


@ALONE
@pytest.mark.parametrize(("status", "columns", "kind"), ENDINGS)
def test_the_sdk_unwraps_each_ending_as_its_typed_event(
    ada: Api, receiver: Provider, status: str, columns: dict[str, Any], kind: Any
):
    made = make(ada, receiver.url)
    texts: dict[str, Any] = {"prompt": "secret prompt", "error_detail": "secret detail"}
    job = job_in(status, user=ada.user, **ASKED, **texts, **columns)

    delivery = attempt()

    [request] = receiver.calls
    event: Any = sdk(made["secret"]).webhooks.unwrap(request.body, dict(request.headers))
    assert type(event).__name__ == kind.__name__
    kind.model_validate_json(request.body, strict=True)
    assert job.finished_at is not None
    assert event.data.id == ids.response_id(job.pk)
    assert event.created_at == int(job.finished_at.timestamp())
    assert (event.object, event.type) == ("event", delivery.event)
    assert event.id.startswith("evt_")
    # Nothing else but what Standard Webhooks asks for.
    told = json.loads(request.body)
    assert told.keys() == {"id", "object", "created_at", "type", "timestamp", "data"}
    assert told["timestamp"] == job.finished_at.isoformat().replace("+00:00", "Z")
    assert told["data"].keys() == {"id"}
    assert b"secret" not in request.body
    assert outbox.note() == 0


@ALONE
def test_both_secrets_of_a_rotation_unwrap_and_a_third_or_a_tampered_body_does_not(
    ada: Api, receiver: Provider
):
    made = make(ada, receiver.url)
    rotated = body_of(call(ada, "POST", f"/webhooks/{made['webhook_id']}/rotate"))
    other = make(ada, receiver.url, events=["report.failed"])
    job_in("succeeded", user=ada.user, **ASKED)

    attempt()

    [request] = receiver.calls
    headers = dict(request.headers)
    for secret in (made["secret"], rotated["secret"]):
        event: Any = sdk(secret).webhooks.unwrap(request.body, headers)
        assert event.type == "response.completed"
    tampered = request.body.replace(b"response.completed", b"response.cancelled")
    later = headers | {"webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}
    for secret, body, sent in (
        (other["secret"], request.body, headers),
        (made["secret"], tampered, headers),
        (made["secret"], request.body, later),
        (made["secret"], request.body, headers | {"webhook-id": "msg_other"}),
    ):
        with pytest.raises(InvalidWebhookSignatureError):
            sdk(secret).webhooks.unwrap(body, sent)


@ALONE
def test_the_sdk_is_lenient_about_what_it_does_not_know(ada: Api, receiver: Provider):
    made = make(ada, receiver.url)
    job = job_in("succeeded", user=ada.user)

    attempt()

    [request] = receiver.calls
    event: Any = sdk(made["secret"]).webhooks.unwrap(request.body, dict(request.headers))
    assert event.type == "report.succeeded"
    assert event.to_dict()["data"] == json.loads(request.body)["data"]
    assert event.to_dict()["data"]["job_id"] == str(job.pk)


def test_what_an_endpoint_asked_for_covers_both_kinds_of_jobs(ada: Api):
    good = listening(ada, URL, on_failure=False)
    bad = listening(ada, URL, on_success=False)
    for status, columns, _ in ENDINGS:
        job_in(status, user=ada.user, **ASKED, **columns)
        job_in(status, user=ada.user, **columns)

    assert outbox.note() == 8

    told = {
        endpoint.pk: sorted(each.event for each in all_deliveries() if each.endpoint == endpoint)
        for endpoint in (good, bad)
    }
    succeeded, failed = ["report.succeeded"] * 2, ["report.failed"] * 2
    assert told[good.pk] == [*succeeded, "response.completed", "response.incomplete"]
    assert told[bad.pk] == [*failed, "response.cancelled", "response.failed"]


def test_a_look_reads_each_ending_once_whatever_it_is(ada: Api):
    listening(ada, URL)
    outbox.note()
    for columns in (ASKED, {}):
        job_in("succeeded", user=ada.user, **columns)
        job_in("failed", user=ada.user, **columns)

    with CaptureQueriesContext(connection) as captured:
        assert outbox.note() == 4

    looks = [each for each in captured if 'FROM "reports_reportjob"' in str(each["sql"])]
    assert len(looks) == 1
