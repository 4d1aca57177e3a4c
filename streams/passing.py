"""Passes requests for events on to the process that streams them, where no proxy in front does.

Two sockets and no thread for each stream; nothing is read of what passes but the head.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from django.conf import settings

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

EVENTS = re.compile(r"/reports/[^/]+/events/?")
# With `stream=true`; without it an answer like any other.
RESPONSE = re.compile(r"/v1/responses/[^/]+/?")
CONNECT_S = 1.0
ANSWER_S = 10.0
PIECE_BYTES = 16 * 1024
# A web process lends so many of its places; more are for a proxy in front to route.
PLACES = 500
# Between two hops only (RFC 9110 section 7.6.1).
HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"te", b"upgrade"})

_taken: set[object] = set()


def is_for(scope: MutableMapping[str, Any]) -> bool:
    """Whether this request is for the other process."""
    return scope["method"] in {"GET", "HEAD"} and route(scope) is not None


def route(scope: MutableMapping[str, Any]) -> str | None:
    """The name of the route that this request wants events from. None: it wants none."""
    if EVENTS.fullmatch(scope["path"]):
        return "report-events"
    if RESPONSE.fullmatch(scope["path"]) and _wants_stream(scope["query_string"]):
        return "response-detail"
    return None


def _wants_stream(query: bytes) -> bool:
    return parse_qs(query.decode("latin-1")).get("stream", [""])[-1].lower() == "true"


async def on(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> bool:
    """Pass a request on and its answer back. False: nobody answers there, and nothing was sent."""
    place = object()
    if len(_taken) >= PLACES:
        return False
    _taken.add(place)
    try:
        async with _connected() as (reader, writer):
            writer.write(_head(scope))
            async with asyncio.timeout(ANSWER_S):
                head = await reader.readuntil(b"\r\n\r\n")
            await send(_start(head))
            await _pass_back(reader, writer, receive, send)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return False
    finally:
        _taken.discard(place)
    return True


@asynccontextmanager
async def _connected() -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    address = urlsplit(settings.EVENTS_URL)
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(
            address.hostname,
            address.port or (443 if address.scheme == "https" else 80),
            ssl=address.scheme == "https" or None,
            limit=PIECE_BYTES,
        )
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _head(scope: MutableMapping[str, Any]) -> bytes:
    """HTTP/1.0, so that the answer ends with its connection and nothing has to be unpacked."""
    target = scope.get("raw_path") or scope["path"].encode()
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    lines = [scope["method"].encode() + b" " + target + query + b" HTTP/1.0"]
    lines += [
        name + b": " + text
        for name, text in scope["headers"]
        if name not in HOP and name != b"content-length"
    ]
    return b"\r\n".join([*lines, b"", b""])


def _start(head: bytes) -> dict[str, Any]:
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = [line.partition(b":") for line in lines]
    headers = [(name.lower(), text.strip()) for name, _, text in pairs if name.lower() not in HOP]
    return {
        "type": "http.response.start",
        "status": int(first.split(b" ")[1]),
        "headers": [pair for pair in headers if pair[0] not in {b"date", b"server"}],
    }


async def _pass_back(
    reader: StreamReader,
    writer: StreamWriter,
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Until either side ends."""
    leaving = asyncio.ensure_future(_left(receive))
    leaving.add_done_callback(lambda _: writer.transport.abort())
    try:
        while piece := await reader.read(PIECE_BYTES):
            if leaving.done():
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not leaving.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except ConnectionError:
        # It died in the middle: an end that comes early is what its client has to be told.
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        leaving.cancel()


async def _left(receive: Callable[[], Awaitable[MutableMapping[str, Any]]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
