"""The web process alone: slow clients, and what it says about itself."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import requests

from tests.system.parts import SOON_S, Caller

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.processes import Processes

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
SLOW_CLIENTS = 200
BODY = json.dumps({"prompt": "sent in two halves"}).encode()


@pytest.fixture(scope="module")
def address(shared: Processes) -> str:
    """The one web process of the module."""
    return shared.web()


def begin(address: str, token: str, key: str) -> socket.socket:
    """A POST whose body has only begun."""
    parts = urlsplit(address)
    client = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=SOON_S)
    head = (
        f"POST /reports HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
        f"Idempotency-Key: {key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(BODY)}\r\nConnection: close\r\n\r\n"
    )
    client.sendall(head.encode() + BODY[:5])
    return client


def test_clients_that_send_slowly_take_nobodys_place(
    transactional_db: None, address: str, ada: Api
):
    caller = Caller(address, ada.token)
    with ExitStack() as stack:
        slow = [
            stack.enter_context(begin(address, ada.token, f"slow-{number}"))
            for number in range(SLOW_CLIENTS)
        ]

        began = time.monotonic()
        caller.accepted(10)
        took_s = time.monotonic() - began
        slow[0].sendall(BODY[5:])
        answer = slow[0].recv(4096)

    assert took_s < 5
    assert answer.startswith(b"HTTP/1.1 202 ")


def test_health_asks_nobody_and_readiness_names_what_is_missing(
    transactional_db: None, address: str
):
    health = requests.get(f"{address}/healthz", timeout=SOON_S)
    readiness = requests.get(f"{address}/readyz", timeout=SOON_S)

    assert health.status_code == 200
    lines = [json.loads(line) for line in readiness.text.splitlines()]
    assert [line["part"] for line in lines] == ["database", "broker", "worker"]
    assert [line["status"] for line in lines][:2] == ["ok", "ok"]
