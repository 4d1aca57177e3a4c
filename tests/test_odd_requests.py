"""Bytes that nobody should send, in headers, paths and queries: never a fault of ours."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_from_bytes

import pytest

from reports_project import asgi

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.clients import Api

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]
ROUTES = [b"/", b"/reports", b"/budget", b"/schema", b"/docs", b"/tokens/", b"/login/", b"/nowhere"]
HEADERS = [
    *(b"accept", b"accept-encoding", b"accept-language", b"authorization", b"content-encoding"),
    *(b"content-length", b"content-type", b"cookie", b"expect", b"forwarded", b"host"),
    *(b"hx-current-url", b"hx-request", b"hx-target", b"idempotency-key", b"if-modified-since"),
    *(b"if-none-match", b"origin", b"range", b"referer", b"traceparent", b"user-agent"),
    *(b"x-csrftoken", b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"),
]
VALUES = [
    *(b"", b"\xff\xfe", b"\x00", b"\xed\xa0\x80", b"a" * 9000, b'"\\', b"http://["),
    *(b"text/html;q=1e999", b"sessionid=\x00; csrftoken=\xff", b"Bearer \xff", b"9" * 5000, b"-1"),
]
PATHS = [
    *(b"/%00", b"/%ff", b"//", b"/reports/%ed%a0%80", b"/reports/%00/cancel", b"/docs/%00"),
    *(b"/tokens/%00/revoke/", b"/tokens/" + b"9" * 30 + b"/revoke/", b"/static/%00"),
    *(b"/tokens/" + b"9" * 5000 + b"/revoke/", b"/static/..%2f..%2fmanage.py", b"/" + b"a/" * 3000),
]
QUERIES = [
    *(b"cursor=%00", b"status=%ff", b"format=%ed%a0%80", b"again=%00", b"before=%ff", b"next=%00"),
    *(b"%ff=%00", b"&" * 5000, b"a=1&" * 5000, b"q=" + b"9" * 5000, b"page=9e999"),
]


def statuses(requests: Iterable[tuple[str, bytes, bytes, dict[bytes, bytes]]]) -> dict[str, int]:
    """What the front door answers to method, path, query and headers; faults by what was asked."""

    async def ask() -> dict[str, int]:
        found: dict[str, int] = {}
        for method, path, query, headers in requests:
            sent: list[Any] = []

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            scope = {
                "type": "http",
                "method": method,
                "path": path.decode("latin-1"),
                "raw_path": path,
                "query_string": query,
                "headers": list(headers.items()),
                "http_version": "1.1",
                "scheme": "http",
                "client": ("192.0.2.1", 1),
            }
            await asgi.application(scope, receive, send)
            asked = f"{method} {quote_from_bytes(path)[:80]}?{query[:40]!r} {headers}"
            found[asked] = sent[0]["status"]
        return found

    return asyncio.run(ask())


def faults(found: dict[str, int]) -> dict[str, int]:
    """Those that are ours."""
    return {asked: status for asked, status in found.items() if status >= 500}


@pytest.fixture
def signed_in(ada: Api) -> dict[bytes, bytes]:
    """The headers of Ada's browser."""
    session = ada.browser().cookies["sessionid"].value
    return {b"host": b"localhost", b"cookie": f"sessionid={session}".encode()}


def test_no_bytes_in_a_header_are_a_fault_of_ours(signed_in: dict[bytes, bytes]):
    asked = [("POST", b"/reports"), ("GET", b"/login/")]
    requests = [
        (method, route, b"", signed_in | {header: value})
        for (method, route), header, value in product(asked, HEADERS, VALUES)
    ]

    found = statuses(requests)

    assert len(found) == len(requests) == 2 * len(HEADERS) * len(VALUES)
    assert faults(found) == {}


def test_no_bytes_in_a_path_or_a_query_are_a_fault_of_ours(signed_in: dict[bytes, bytes]):
    requests = [
        ("GET", path, query, signed_in)
        for path, query in [*product(ROUTES, QUERIES), *product(PATHS, [b"", QUERIES[0]])]
    ]

    assert faults(statuses(requests)) == {}


def test_thousands_of_fields_are_only_fields(signed_in: dict[bytes, bytes]):
    asked = [("GET", b"/schema", b"a=1&" * 5000, signed_in)]

    assert list(statuses(asked).values()) == [200]
