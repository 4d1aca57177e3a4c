"""/webhooks: one's own, bounded, and each secret shown once."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from reports import persons
from tests.support.expect import assert_problem, body_of
from tests.support.rows import job_in
from tests.webhooks.making import all_deliveries, call, listening, make
from webhooks import endpoints, outbox
from webhooks.models import WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from django.http import HttpResponse

    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db


def test_a_webhook_is_made_shown_without_its_secret_and_deleted(ada: Api, receiver: Provider):
    response = call(ada, "POST", "/webhooks", url=receiver.url, description="mine ä")

    made = body_of(response)
    secret = made.pop("secret")
    assert response.status_code == 201
    assert secret.startswith("whsec_")
    path = response.headers["Location"]
    assert path == f"/webhooks/{made['webhook_id']}"
    assert body_of(ada.get(path)) == made
    assert body_of(ada.get("/webhooks")) == {"results": [made]}
    assert datetime.fromisoformat(made.pop("created_at")).tzinfo
    made.pop("webhook_id")
    assert made == {
        "url": receiver.url,
        "description": "mine ä",
        "events": ["report.succeeded", "report.failed"],
        "is_enabled": True,
        "why_disabled": None,
        "failing_since": None,
        "old_secret_until": None,
    }
    assert ada.request("DELETE", path).status_code == 204
    assert_problem(ada.get(path), 404, "not_found")


def test_no_row_and_no_export_holds_a_secret(ada: Api, receiver: Provider):
    secret = make(ada, receiver.url)["secret"]
    job_in("succeeded", user=ada.user)
    outbox.note()

    document = "".join(persons.export(ada.user))

    kept = json.loads(document)
    assert kept["webhooks.webhookendpoint"][0]["url"] == receiver.url
    assert len(kept["webhooks.webhookdelivery"]) == 1
    seed = WebhookEndpoint.objects.get().seed
    assert secret[6:] not in json.dumps(list(WebhookEndpoint.objects.values()), default=str)
    assert seed not in document


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": None}, "url"),
        ({"url": 1}, "url"),
        ({"description": None}, "description"),
        ({"description": "x" * 201}, "description"),
        ({"description": "\x00"}, "description"),
        ({"events": []}, "events"),
        ({"events": ["report.test"]}, "events"),
        ({"events": "report.failed"}, "events"),
        ({"events": [["report.failed"]]}, "events"),
        ({"is_enabled": "yes"}, "is_enabled"),
    ],
)
def test_what_does_not_fit_is_refused(
    ada: Api, receiver: Provider, body: dict[str, object], field: str
):
    good = {} if field == "url" else {"url": receiver.url}

    response = call(ada, "POST", "/webhooks", **good, **body)

    assert list(assert_problem(response, 400, "invalid_request")["errors"]) == [field]
    assert not WebhookEndpoint.objects.exists()


def test_a_user_has_ten_at_most(ada: Api, bob: Api, receiver: Provider):
    for _ in range(endpoints.MOST_ENDPOINTS):
        make(ada, receiver.url)

    response = call(ada, "POST", "/webhooks", url=receiver.url)

    assert assert_problem(response, 409, "too_many_webhooks") == {"max_webhooks": 10}
    make(bob, receiver.url)


def test_a_change_changes_what_it_names(ada: Api, receiver: Provider):
    before = make(ada, receiver.url, description="first")
    path = f"/webhooks/{before['webhook_id']}"
    before.pop("secret")

    changed = body_of(call(ada, "PATCH", path, events=["report.failed"]))

    assert changed == before | {"events": ["report.failed"]}
    assert body_of(call(ada, "PATCH", path)) == changed
    off = body_of(call(ada, "PATCH", path, is_enabled=False))
    assert off == changed | {"is_enabled": False, "why_disabled": "owner"}
    assert body_of(call(ada, "PATCH", path, is_enabled=True)) == changed


def test_what_ended_while_it_was_off_or_not_asked_for_is_not_told_later(
    ada: Api, receiver: Provider
):
    endpoint = listening(ada, receiver.url, on_failure=False)
    heard = job_in("succeeded", user=ada.user)
    job_in("failed", user=ada.user)
    call(ada, "PATCH", f"/webhooks/{endpoint.pk}", events=["report.succeeded", "report.failed"])
    outbox.note(back=timedelta(days=1))
    assert [each.job_id for each in all_deliveries()] == [heard.pk]

    call(ada, "PATCH", f"/webhooks/{endpoint.pk}", is_enabled=False)
    job_in("succeeded", user=ada.user)
    call(ada, "PATCH", f"/webhooks/{endpoint.pk}", is_enabled=True)
    outbox.note(back=timedelta(days=1))
    assert len(all_deliveries()) == 1


def test_a_test_is_a_delivery_and_only_of_one_that_is_on(ada: Api, receiver: Provider):
    path = f"/webhooks/{make(ada, receiver.url)['webhook_id']}"

    taken = call(ada, "POST", f"{path}/test")
    listed = body_of(ada.get(f"{path}/deliveries"))["results"]
    call(ada, "PATCH", path, is_enabled=False)

    assert taken.status_code == 202
    assert listed == [body_of(taken)]
    assert (listed[0]["event"], listed[0]["state"], listed[0]["job_id"]) == (
        *("report.test", "pending"),
        None,
    )
    assert_problem(call(ada, "POST", f"{path}/test"), 409, "webhook_off")


def test_the_webhooks_of_another_are_not_there(ada: Api, bob: Api, receiver: Provider):
    endpoint = listening(bob, receiver.url)
    job_in("succeeded", user=bob.user)
    outbox.note()
    [delivery] = all_deliveries()
    path = f"/webhooks/{endpoint.pk}"
    before = list(WebhookEndpoint.objects.values()), list(WebhookDelivery.objects.values())

    def refused(path: str) -> list[HttpResponse]:
        return [
            ada.get(path),
            call(ada, "PATCH", path, description="hers"),
            ada.request("DELETE", path),
            call(ada, "POST", f"{path}/rotate"),
            call(ada, "POST", f"{path}/test"),
            ada.get(f"{path}/deliveries"),
            call(ada, "POST", f"{path}/deliveries/{delivery.pk}/replay"),
        ]

    unknown = refused(f"/webhooks/{uuid4()}") + refused("/webhooks/none")
    for response, other in zip(refused(path) * 2, unknown, strict=True):
        assert_problem(response, 404, "not_found")
        assert response.content == other.content
    assert body_of(ada.get("/webhooks")) == {"results": []}
    own = listening(ada, receiver.url)
    assert_problem(
        call(ada, "POST", f"/webhooks/{own.pk}/deliveries/{delivery.pk}/replay"), 404, "not_found"
    )
    after = (
        list(WebhookEndpoint.objects.exclude(pk=own.pk).values()),
        list(WebhookDelivery.objects.values()),
    )
    assert after == before


@pytest.mark.django_db(transaction=True)
def test_erasing_a_user_with_the_account_takes_webhooks_along(ada: Api, receiver: Provider):
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    outbox.note()

    persons.erase(ada.user, delete=True)

    assert not WebhookEndpoint.objects.exists()
    assert not WebhookDelivery.objects.exists()
