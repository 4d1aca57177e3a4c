"""Which requests go on to the process that streams, and what is said where nobody answers there."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from reports_project import asgi
from streams import passing

if TYPE_CHECKING:
    from pytest_django import Settings

RESPONSE = "/v1/responses/resp_1"


def scope(path: str, query: str = "", *, method: str = "GET") -> dict[str, Any]:
    """A request."""
    sent = {"path": path, "query_string": query.encode(), "method": method, "headers": []}
    return {"type": "http", **sent}


@pytest.mark.parametrize(
    ("path", "query", "route"),
    [
        ("/reports/1/events", "", "report-events"),
        ("/reports/1/events/", "a=b", "report-events"),
        ("/reports/1", "stream=true", None),
        (RESPONSE, "stream=true", "response-detail"),
        (f"{RESPONSE}/", "starting_after=4&stream=True", "response-detail"),
        (RESPONSE, "stream=false&stream=tru%65", "response-detail"),
        (RESPONSE, "stream=true&stream=false", None),
        (RESPONSE, "stream=yes", None),
        (RESPONSE, "stream=%ff", None),
        (RESPONSE, "", None),
        (f"{RESPONSE}/input_items", "stream=true", None),
        ("/v1/responses", "stream=true", None),
    ],
)
def test_a_request_goes_where_its_path_and_query_say(path: str, query: str, route: str | None):
    assert passing.route(scope(path, query)) == route
    assert passing.is_for(scope(path, query)) is bool(route)
    assert not passing.is_for(scope(path, query, method="POST"))


def test_where_nobody_streams_each_api_says_so_in_its_own_words(settings: Settings):
    settings.EVENTS_URL = "http://127.0.0.1:1"

    async def refused(path: str, query: str) -> tuple[dict[bytes, bytes], Any]:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await asgi.application(scope(path, query), asyncio.Event().wait, send)  # type: ignore[arg-type]
        assert sent[0]["status"] == 503
        return dict(sent[0]["headers"]), json.loads(sent[1]["body"])

    headers, problem = asyncio.run(refused("/reports/1/events", ""))
    assert headers[b"content-type"] == b"application/problem+json"
    assert problem["error"] == "unavailable"

    headers, envelope = asyncio.run(refused(RESPONSE, "stream=true"))
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"retry-after"]) > 0
    assert envelope["error"]["code"] == "unavailable"
