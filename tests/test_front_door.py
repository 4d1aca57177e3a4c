"""The front door without a server: clients that leave, bodies that never end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from reports_project import asgi, policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_django import Settings

SCOPE = {"type": "http", "method": "POST", "path": "/reports", "headers": [], "query_string": b""}


def answer_to(*messages: dict[str, Any], scope: dict[str, Any] = SCOPE) -> Sequence[dict[str, Any]]:
    """What the front door sends after these messages, when nothing more comes."""
    coming = list(messages)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0) if coming else await asyncio.Event().wait()  # type: ignore[return-value]

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asgi.application(scope, receive, send))
    return sent


def assert_headers(start: dict[str, Any], content_type: bytes, cache_control: bytes) -> None:
    """What every answer of Django's carries too."""
    headers = dict(start["headers"])
    assert headers[b"content-type"] == content_type
    assert headers[b"cache-control"] == cache_control
    for name, text in policy.HEADERS.items():
        assert headers[name.lower().encode()] == text.encode()


def body(part: bytes, *, more: bool = True) -> dict[str, Any]:
    """One piece of a body."""
    return {"type": "http.request", "body": part, "more_body": more}


def test_a_body_that_does_not_end_in_time_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(asgi, "BODY_TIMEOUT_S", 0.05)

    start, end = answer_to(body(b'{"prompt":'))

    assert start["status"] == 408
    assert_headers(start, b"application/problem+json", b"private, no-cache")
    assert json.loads(end["body"])["error"] == "body_timeout"


def test_a_client_that_leaves_is_answered_nothing():
    assert answer_to(body(b'{"prompt":'), {"type": "http.disconnect"}) == []


def test_a_body_over_the_limit_is_read_to_its_end_and_refused():
    start, end = answer_to(body(b"x" * 131_073), body(b"x"), body(b"", more=False))

    assert start["status"] == 413
    assert_headers(start, b"application/problem+json", b"private, no-cache")
    assert json.loads(end["body"])["error"] == "too_large"


def test_a_body_without_end_is_refused_at_a_bound():
    start, _ = answer_to(*[body(b"x" * 1024 * 1024)] * 5)

    assert start["status"] == 413


def test_a_check_of_health_carries_the_headers_too():
    start, end = answer_to(scope={**SCOPE, "method": "GET", "path": "/healthz"})

    assert start["status"] == 200
    assert_headers(start, b"application/json", b"no-store")
    assert json.loads(end["body"]) == {"status": "ok"}


@pytest.mark.parametrize(("proto", "is_told"), [(b"https", True), (b"http", False), (b"", False)])
def test_https_is_asked_for_over_https_only(settings: Settings, proto: bytes, *, is_told: bool):
    settings.SECURE_HSTS_SECONDS = 60
    scope = {**SCOPE, "path": "/healthz", "method": "GET"}

    start, _ = answer_to(scope={**scope, "headers": [(b"x-forwarded-proto", proto)]})

    assert (b"strict-transport-security" in dict(start["headers"])) is is_told


def test_what_is_not_http_is_left_alone():
    assert answer_to(scope={"type": "lifespan"}) == []
