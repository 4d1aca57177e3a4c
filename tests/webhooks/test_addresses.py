"""Where a message may go: out, over TLS, and never to anything inside, whatever a name says."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from tests.support.expect import assert_problem
from tests.support.rows import job_in
from tests.webhooks.making import attempt, call, listening
from webhooks import addresses, sending
from webhooks.addresses import Target, Unfit
from webhooks.models import WebhookEndpoint

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.provider import Provider

SENDS = pytest.mark.django_db(transaction=True)
INSIDE = [
    *("127.0.0.1", "127.255.255.254", "0.1.2.3", "10.0.0.1", "172.16.0.1"),
    *("172.31.255.255", "192.168.1.1", "100.64.0.1", "169.254.169.254", "192.0.0.192"),
    *("192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1"),
    *("239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1"),
    *("64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1"),
    *("2002:808:808::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1"),
    *("3fff::1", "4000::1", "nonsense", "", "1.2.3", "0x7f.1"),
]
OUTSIDE = ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.63.255.255", "2606:4700:4700::1111", "2a00::1"]


@pytest.mark.parametrize("text", INSIDE)
def test_what_is_inside_or_nobody_s_is_not_public(text: str):
    assert not addresses.is_public(text)


@pytest.mark.parametrize("text", OUTSIDE)
def test_what_the_internet_reaches_is_public(text: str):
    assert addresses.is_public(text)


@pytest.mark.django_db
@pytest.mark.parametrize(
    "url",
    [
        *("", "hooks.example", "//hooks.example/", "ftp://hooks.example/", "javascript:alert(1)"),
        *("http://hooks.example/", "https://", "https:///path", "https:hooks.example"),
        *(
            "https://user@hooks.example/",
            "https://user:secret@hooks.example/",
            "https://@a.example/",
        ),
        *("https://hooks.example/#part", "https://hooks.example/#", "https://hooks.example:99999/"),
        *("https://hooks.example:0/", "https://hooks.example:22/", "https://hooks.example:80/"),
        *("https://hooks.example:x/", "https://hooks.example/a b", "https://hooks.example\\@b/"),
        *(
            "https://hooks.example/\r\nX: y",
            "https://hööks.example/",
            "https://[::1",
            "https://[x]/",
        ),
        f"https://hooks.example/{'x' * 2000}",
    ],
)
def test_an_address_that_is_odd_is_refused(ada: Api, url: str):
    response = call(ada, "POST", "/webhooks", url=url)

    assert list(assert_problem(response, 400, "invalid_request")["errors"]) == ["url"]
    assert not WebhookEndpoint.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "[::1]", "10.1.2.3", "169.254.169.254", "[::ffff:10.0.0.1]"),
        *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "nowhere.invalid"),
    ],
)
def test_a_host_inside_is_refused_in_the_words_for_one_that_is_not_there(ada: Api, host: str):
    response = call(ada, "POST", "/webhooks", url=f"https://{host}/hook")

    errors = assert_problem(response, 400, "invalid_request")["errors"]
    assert errors == {"url": ["The host cannot be found, or is not on the public internet."]}


def test_one_address_inside_among_many_outside_is_too_many(monkeypatch: pytest.MonkeyPatch):
    _answer_with(monkeypatch, ["8.8.8.8", "10.0.0.1"])
    target = Target(is_tls=True, host="mixed.example", port=443, path="/")

    with pytest.raises(Unfit):
        addresses.resolve(target, within_s=2)


@SENDS
def test_a_name_that_turns_inwards_later_gets_no_message(
    ada: Api, receiver: Provider, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.DEBUG = False
    _answer_with(monkeypatch, ["8.8.8.8"])
    url = f"https://turns.example:{receiver.port}/"
    assert call(ada, "POST", "/webhooks", url=url).status_code == 201
    _answer_with(monkeypatch, ["127.0.0.1"])
    job_in("succeeded", user=ada.user)

    delivery = attempt()

    assert (delivery.state, delivery.detail) == ("pending", sending.UNREACHABLE)
    assert receiver.open_connections == 0
    assert receiver.calls == []


@SENDS
def test_the_connection_goes_to_the_address_that_was_looked_at(
    ada: Api, receiver: Provider, monkeypatch: pytest.MonkeyPatch
):
    looked_up = _answer_with(monkeypatch, ["127.0.0.1"])
    listening(ada, f"http://pinned.example:{receiver.port}/")
    job_in("succeeded", user=ada.user)

    assert attempt().state == "delivered"

    assert looked_up == ["pinned.example"]
    assert receiver.calls[0].headers["host"] == f"pinned.example:{receiver.port}"


@SENDS
def test_no_proxy_of_the_environment_is_asked(
    ada: Api, receiver: Provider, monkeypatch: pytest.MonkeyPatch
):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)

    assert attempt().state == "delivered"


def _answer_with(monkeypatch: pytest.MonkeyPatch, found: list[str]) -> list[str]:
    """What a name server says from now on, and which names it is asked for."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: object) -> list[object]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port)) for text in found]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked
