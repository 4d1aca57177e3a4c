"""A receiver that fails in many ways, and what becomes of the delivery each time."""

from __future__ import annotations

import socket
import ssl
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from budgets.rows import Now
from tests.support import certificates
from tests.support.expect import body_of
from tests.support.provider import Answer, Provider
from tests.support.rows import job_in
from tests.webhooks.making import all_deliveries, attempt, call, listening, make, make_due
from webhooks import addresses, deliveries, loops, outbox, sending, signing
from webhooks.deliveries import WAITS_S
from webhooks.models import WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db(transaction=True)
DAY_S = 86400


def wait_of(delivery: WebhookDelivery) -> float:
    """Seconds from the end of the last attempt until the next, to the millisecond."""
    assert delivery.next_try_at is not None
    return (delivery.next_try_at - datetime.fromisoformat(delivery.history[-1][0])).total_seconds()


def test_an_ending_is_told_once_signed_and_without_texts(ada: Api, receiver: Provider):
    made = make(ada, receiver.url)
    job = job_in("succeeded", user=ada.user, prompt="secret prompt", result_text="secret text")

    delivery = attempt()

    [request] = receiver.calls
    told = Webhook(made["secret"]).verify(request.body, dict(request.headers))
    assert job.finished_at is not None
    assert told.pop("timestamp") == job.finished_at.isoformat().replace("+00:00", "Z")
    data = {"job_id": str(job.pk), "status": "succeeded", "http_status": 200}
    assert told == {"type": "report.succeeded", "data": data}
    assert request.headers["webhook-id"] == f"msg_{delivery.pk.hex}"
    assert request.headers["content-type"] == "application/json"
    assert b"secret" not in request.body
    assert (delivery.state, delivery.http_status, delivery.attempts) == ("delivered", 204, 1)
    assert delivery.next_try_at is None
    assert outbox.note() == 0


def test_a_failure_is_told_with_its_code(ada: Api, receiver: Provider):
    made = make(ada, receiver.url)
    job = job_in("failed", user=ada.user)

    attempt()

    told = Webhook(made["secret"]).verify(receiver.calls[0].body, dict(receiver.calls[0].headers))
    assert (told["type"], told["data"]) == (
        "report.failed",
        {
            "job_id": str(job.pk),
            "status": "failed",
            "http_status": 503,
            "error_code": "provider_5xx",
        },
    )


FAULTS = {
    "500": (Answer(b"", status=500), 500, "It answered 500 Internal Server Error."),
    "301": (
        Answer(b"", status=301, headers={"Location": "http://127.0.0.1:1/"}),
        301,
        "It answered 301 Moved Permanently; redirects are not followed.",
    ),
    "404": (Answer(b"", status=404), 404, "It answered 404 Not Found."),
    "junk": (Answer(wire=b"SSH-2.0-OpenSSH_9.2\r\n"), None, sending.NO_ANSWER),
    "reset": (Answer(reset_after=0), None, sending.NO_ANSWER),
    "nothing": (Answer(wire=b"", keep_open=False), None, sending.NO_ANSWER),
    "a huge head": (
        Answer(wire=b"HTTP/1.1 200 OK\r\nA: " + b"x" * 70_000),
        None,
        sending.NO_ANSWER,
    ),
    "hang": (Answer(hang=True), None, sending.TOO_LATE),
    "a slow head": (Answer(drip=(1, 0.1), drips_head=True), None, sending.TOO_LATE),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_put_down_and_tried_again(
    ada: Api, receiver: Provider, monkeypatch: pytest.MonkeyPatch, fault: str
):
    answer, status, words = FAULTS[fault]
    if words == sending.TOO_LATE:  # the others must not be taken for it by a slow machine
        monkeypatch.setattr(sending, "LONGEST_S", 2.0)
    receiver.script(answer)
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)

    delivery = attempt()

    assert (delivery.state, delivery.http_status, delivery.detail) == ("pending", status, words)
    assert 5 <= wait_of(delivery) < 6.01
    assert len(receiver.calls) == 1
    assert [(outcome, said) for _, outcome, said in delivery.history] == [("put_off", words)]


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"x" * 10_000_000), (299, b""), (204, b""), (201, b"{")]
)
def test_any_2xx_is_success_and_its_body_is_not_read(
    ada: Api, receiver: Provider, status: int, body: bytes
):
    receiver.script(Answer(body, status=status, drip=(100, 0.05)))
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)

    assert attempt().state == "delivered"


def test_a_refused_connection_and_an_unknown_host_look_the_same(ada: Api, settings: Settings):
    settings.DEBUG = True
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    job_in("succeeded", user=ada.user)
    for url in (f"http://127.0.0.1:{port}/", "http://nowhere.invalid:8080/"):
        listening(ada, url)
    outbox.note()

    for delivery in all_deliveries():
        assert loops.deliver(delivery.pk)

    assert {each.detail for each in all_deliveries()} == {sending.UNREACHABLE}
    assert {each.state for each in all_deliveries()} == {"pending"}


@pytest.mark.parametrize(
    ("retry_after", "low", "high"),
    [("120", 120, 120), ("1", 5, 6), ("9999999", DAY_S, DAY_S), ("soon", 5, 6)],
)
def test_a_receiver_may_ask_for_a_longer_wait_up_to_a_day(
    ada: Api, receiver: Provider, retry_after: str, low: int, high: int
):
    receiver.script(Answer(b"", status=429, headers={"Retry-After": retry_after}))
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)

    assert low <= wait_of(attempt()) < high + 0.01


def test_410_switches_the_endpoint_off_and_says_so(ada: Api, receiver: Provider):
    receiver.script(Answer(b"", status=410))
    endpoint = listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)

    delivery = attempt()

    assert (delivery.state, delivery.http_status) == ("failed", 410)
    shown = body_of(ada.get(f"/webhooks/{endpoint.pk}"))
    assert (shown["is_enabled"], shown["why_disabled"]) == (False, "gone")
    job_in("succeeded", user=ada.user)
    assert outbox.note() == 0
    assert len(receiver.calls) == 1


def test_the_attempts_keep_the_recommended_waits_and_one_webhook_id_and_then_end(
    ada: Api, receiver: Provider
):
    receiver.script(Answer(b"", status=500))
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)

    waits = [wait_of(attempt()) for _ in WAITS_S[1:]]
    last = attempt()

    for planned, found in zip(WAITS_S[1:], waits, strict=True):
        assert planned <= found < planned * 1.2 + 0.01
    assert WAITS_S[1:4] == (5, 300, 1800)
    assert (last.state, last.attempts) == ("failed", len(WAITS_S))
    assert {call.headers["webhook-id"] for call in receiver.calls} == {last.webhook_id}
    assert len({call.body for call in receiver.calls}) == 1


def test_five_days_of_failures_switch_off_and_a_success_forgets_them(ada: Api, receiver: Provider):
    endpoint = listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    receiver.script(Answer(b"", status=500), Answer(b"", status=200), Answer(b"", status=500))

    attempt()
    assert WebhookEndpoint.objects.get().failing_since is not None
    attempt()
    assert WebhookEndpoint.objects.get().failing_since is None

    WebhookEndpoint.objects.update(failing_since=Now() - timedelta(days=5, seconds=1))
    call(ada, "POST", f"/webhooks/{endpoint.pk}/test")
    _, test = all_deliveries()
    assert loops.deliver(test.pk)
    assert WebhookEndpoint.objects.get().off == "failing"


@pytest.fixture
def tls(tmp_path: Path, settings: Settings) -> Generator[tuple[Provider, Path]]:
    """A receiver with a certificate for 127.0.0.1 that nobody has signed."""
    settings.DEBUG = True
    certificate = certificates.make(tmp_path / "loopback.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with Provider(Answer(b"", status=204), tls=context) as running:
        yield running, certificate


def test_a_certificate_that_nobody_trusts_gets_no_message(ada: Api, tls: tuple[Provider, Path]):
    listening(ada, tls[0].url)
    job_in("succeeded", user=ada.user)

    delivery = attempt()

    assert (delivery.state, delivery.detail) == ("pending", sending.INSECURE)
    assert tls[0].calls == []


@pytest.mark.parametrize(("host", "is_taken"), [("127.0.0.1", True), ("hooks.example", False)])
def test_the_certificate_must_be_of_the_name_that_was_asked_for(
    ada: Api, tls: tuple[Provider, Path], monkeypatch: pytest.MonkeyPatch, host: str, is_taken: bool
):
    running, certificate = tls
    trusted = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(sending, "trust", lambda: trusted)
    where = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", running.port))
    monkeypatch.setattr(addresses, "resolve", lambda *_, **__: [where])
    listening(ada, f"https://{host}:{running.port}/hook?a=1")
    job_in("succeeded", user=ada.user)

    delivery = attempt()

    assert (delivery.state == "delivered") is is_taken
    assert [request.headers["host"] for request in running.calls] == [
        f"{host}:{running.port}"
    ] * is_taken
    assert [request.path for request in running.calls] == ["/hook?a=1"] * is_taken


def test_both_secrets_sign_for_a_day_after_a_rotation(ada: Api, receiver: Provider):
    old = make(ada, receiver.url)
    new = body_of(call(ada, "POST", f"/webhooks/{old['webhook_id']}/rotate"))
    job_in("succeeded", user=ada.user)

    attempt()

    [request] = receiver.calls
    assert old["secret"] != new["secret"]
    assert len(request.headers["webhook-signature"].split(" ")) == 2
    for secret in (old["secret"], new["secret"]):
        Webhook(secret).verify(request.body, dict(request.headers))

    WebhookEndpoint.objects.update(old_seed_until=Now() - timedelta(seconds=1))
    call(ada, "POST", f"/webhooks/{old['webhook_id']}/test")
    loops.deliver(all_deliveries()[-1].pk)
    last = receiver.calls[-1]
    Webhook(new["secret"]).verify(last.body, dict(last.headers))
    with pytest.raises(WebhookVerificationError):
        Webhook(old["secret"]).verify(last.body, dict(last.headers))


def test_a_secret_outlives_the_secret_key_as_a_fallback_and_not_beyond(
    ada: Api, receiver: Provider, settings: Settings
):
    made = make(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another" * 9
    assert signing.secret_of(WebhookEndpoint.objects.get().seed) == made["secret"]

    settings.SECRET_KEY_FALLBACKS = []
    delivery = attempt()

    assert receiver.calls == []
    assert delivery.detail == "Its secret is lost with an old SECRET_KEY: make a new one."


def test_a_replay_goes_out_anew_under_the_same_id(ada: Api, receiver: Provider):
    endpoint = listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    receiver.script(Answer(b"", status=410), Answer(b"", status=200))
    first = attempt()
    path = f"/webhooks/{endpoint.pk}"

    refused = call(ada, "POST", f"{path}/deliveries/{first.pk}/replay")
    call(ada, "PATCH", path, is_enabled=True)
    taken = call(ada, "POST", f"{path}/deliveries/{first.pk}/replay")
    again = call(ada, "POST", f"{path}/deliveries/{first.pk}/replay")

    assert [each.status_code for each in (refused, taken, again)] == [409, 202, 409]
    assert [body_of(each)["error"] for each in (refused, again)] == [
        "webhook_off",
        "delivery_active",
    ]
    assert attempt().state == "delivered"
    assert {request.headers["webhook-id"] for request in receiver.calls} == {first.webhook_id}
    assert [outcome for _, outcome, _ in all_deliveries()[0].history] == [
        "dead",
        "replayed",
        "delivered",
    ]


def test_an_endpoint_of_a_deactivated_user_gets_nothing(ada: Api, receiver: Provider):
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    outbox.note()
    ada.user.is_active = False
    ada.user.save()
    [delivery] = all_deliveries()

    assert loops.deliver(delivery.pk)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.detail) == ("failed", "The endpoint is switched off.")
    assert receiver.calls == []
    job_in("succeeded", user=ada.user)
    assert outbox.note() == 0


def test_an_erased_job_is_told_of_all_the_same(ada: Api, receiver: Provider):
    listening(ada, receiver.url)
    job = job_in("succeeded", user=ada.user)
    outbox.note()
    ada.request("DELETE", f"/reports/{job.pk}")

    assert attempt().state == "delivered"


def test_a_worker_that_dies_with_an_attempt_leaves_it_to_another(ada: Api, receiver: Provider):

    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    outbox.note()
    [delivery] = all_deliveries()
    dead = deliveries.begin(delivery.pk)
    assert dead is not None
    sending.send(dead)  # and then it is killed, before it writes that down
    assert deliveries.begin(delivery.pk) is None

    make_due(delivery)
    assert loops.deliver(delivery.pk)

    delivery.refresh_from_db()
    assert (delivery.state, delivery.attempts) == ("delivered", 2)
    assert deliveries.finish(dead, sending.Sent("late", 500)) is False
    delivery.refresh_from_db()
    assert delivery.state == "delivered"
    assert [request.headers["webhook-id"] for request in receiver.calls] == [
        delivery.webhook_id
    ] * 2
