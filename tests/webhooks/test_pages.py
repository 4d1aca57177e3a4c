"""The page of one's own webhooks, and what operators see of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from tests.admin.conftest import staff
from tests.support import html
from tests.support.rows import job_in
from tests.webhooks.making import all_deliveries, listening
from webhooks import deliveries, outbox
from webhooks.models import State, WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db
EVENTS = ["report.succeeded", "report.failed"]


@pytest.fixture
def browser(ada: Api) -> Client:
    """Ada's."""
    client = Client()
    client.force_login(ada.user)
    return client


def dead(api: Api, url: str) -> WebhookDelivery:
    """A delivery that was given up."""
    listening(api, url)
    job_in("succeeded", user=api.user)
    outbox.note()
    [delivery] = all_deliveries()
    ended = {"state": State.FAILED, "next_try_at": None, "detail": "It answered 500."}
    WebhookDelivery.objects.filter(pk=delivery.pk).update(**ended, finished_at=delivery.created_at)
    delivery.refresh_from_db()
    return delivery


def test_a_webhook_is_made_and_its_secret_is_shown_once(browser: Client, receiver: Provider):
    sent = {"url": receiver.url, "description": "<b>mine</b>", "events": EVENTS[:1]}

    made = html.read(browser.post("/hooks/", sent))
    again = html.read(browser.get("/hooks/"))

    endpoint = WebhookEndpoint.objects.get()
    assert made.has("secret")
    assert "whsec_" in made.words
    assert not again.has("secret")
    assert "<b>mine</b>" in again.words
    assert "report.failed, response.failed, response.cancelled" in again.words
    assert endpoint.events == EVENTS[:1]
    assert f"/hooks/{endpoint.pk}/" in again.links()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"url": "https://127.0.0.1/", "events": EVENTS}, "not on the public internet"),
        ({"url": "http://a.example/", "events": EVENTS}, "must begin with https://"),
        ({"events": EVENTS}, "must begin with https://"),
        ({"url": "https://127.0.0.1/"}, "not on the public internet"),
    ],
)
def test_what_does_not_fit_is_said_and_kept_in_the_form(
    browser: Client, sent: dict[str, object], words: str
):
    response = browser.post("/hooks/", sent)

    page = html.read(response)
    assert response.status_code == 400
    assert words in page.words
    assert page.fields["url"] == sent.get("url", "")


def test_its_page_does_what_its_buttons_say(browser: Client, ada: Api, receiver: Provider):
    delivery = dead(ada, receiver.url)
    path = f"/hooks/{delivery.endpoint_id}/"
    page = html.read(browser.get(path))
    assert "It answered 500." in page.words
    assert page.fields["delivery"] == str(delivery.pk)

    def press(act: str, **more: str) -> WebhookEndpoint:
        assert browser.post(path, {"act": act, **more}).status_code == 303
        return WebhookEndpoint.objects.get()

    assert press("off").off == "owner"
    press("test")
    press("replay", delivery=str(delivery.pk))
    assert WebhookDelivery.objects.get().state == "failed"
    assert "This webhook is switched off." in html.read(browser.get(path)).words
    assert press("on").is_enabled
    press("replay", delivery=str(delivery.pk))
    assert WebhookDelivery.objects.get().state == "pending"
    press("test")
    assert WebhookDelivery.objects.count() == 2
    assert html.read(browser.post(path, {"act": "rotate"})).has("secret")
    assert browser.post(path, {"act": "delete"}).status_code == 303
    assert not WebhookEndpoint.objects.exists()


def test_the_page_of_another_is_not_there(browser: Client, bob: Api, receiver: Provider):
    endpoint = listening(bob, receiver.url)

    assert browser.get(f"/hooks/{endpoint.pk}/").status_code == 404
    assert browser.post(f"/hooks/{endpoint.pk}/", {"act": "delete"}).status_code == 404
    assert "webhooks" in browser.get("/hooks/").content.decode()
    assert WebhookEndpoint.objects.exists()


def test_operators_see_deliveries_and_send_them_again_on_record(ada: Api, receiver: Provider):
    delivery = dead(ada, receiver.url)
    watcher = staff("watcher", "view_webhookdelivery")
    operator = staff("operator", "view_webhookdelivery", "change_webhookdelivery")
    path = "/admin/webhooks/webhookdelivery/"
    act = {"action": "replay", "_selected_action": [str(delivery.pk)]}

    assert "It answered 500." in html.read(watcher.get(f"{path}{delivery.pk}/change/")).words
    watcher.post(path, act)
    assert WebhookDelivery.objects.get().state == "failed"
    assert operator.post(path, act).status_code == 302

    assert WebhookDelivery.objects.get().state == "pending"
    assert LogEntry.objects.get().object_id == str(delivery.pk)
    assert not deliveries.replay(delivery)


def test_operators_switch_off_and_see_no_seed(ada: Api, receiver: Provider):
    endpoint = listening(ada, receiver.url)
    operator = staff("operator", "view_webhookendpoint", "change_webhookendpoint")
    path = "/admin/webhooks/webhookendpoint/"

    page = operator.get(f"{path}{endpoint.pk}/change/")
    operator.post(path, {"action": "switch_off", "_selected_action": [str(endpoint.pk)]})

    assert endpoint.seed not in page.content.decode()
    assert receiver.url in page.content.decode()
    assert WebhookEndpoint.objects.get().off == "operator"
