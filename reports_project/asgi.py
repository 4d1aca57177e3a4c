"""The front door of the web process: the event loop gathers bodies, a few threads run Django.

A client that sends its body byte by byte costs a coroutine and no thread: it takes nobody's place.
"""

from __future__ import annotations

import asyncio
import io
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote_to_bytes

from django.conf import settings

from reports.errors import BodyTimeout, Refusal, TooLarge, Unavailable
from reports.problems import document_of
from reports_project import policy, turns
from reports_project.wsgi import application as django_application
from streams import passing
from telemetry import access, context, relay, traces

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]

BODY_TIMEOUT_S = 30
# Read and thrown away past the limit, so that the client gets to read our answer.
DRAIN_BYTES = 4 * 1024 * 1024
UNPREFIXED = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}
HEALTH = "/healthz"
CLIENT_LEFT = 499  # nginx's number
ALIVE: Answer = (
    200,
    [(b"content-type", b"application/json"), (b"cache-control", b"no-store")],
    b'{"status": "ok"}',
)

threads = ThreadPoolExecutor(settings.WEB_THREADS, thread_name_prefix="django")


def _end_with(server: multiprocessing.process.BaseProcess) -> None:
    """Not outlive a killed server: we would hold its port, and its successor could not start."""
    server.join()
    os.kill(os.getpid(), signal.SIGTERM)


if server := multiprocessing.parent_process():
    threading.Thread(target=_end_with, args=(server,), name="orphan", daemon=True).start()
    turns.shorten()
    relay.start("web")
    traces.start("web")


class ClientLeft(Exception):
    """The connection ended before the body did."""


async def application(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
    """Answer one HTTP request (ASGI 3)."""
    if scope["type"] != "http":
        return
    if passing.is_for(scope):
        began = time.monotonic()
        if not await passing.on(scope, receive, send):
            refusal = Unavailable("Events cannot be had now. Poll the job instead.")
            refused = refuse(refusal, scope["path"])
            route = passing.route(scope) or "none"
            await send_answer(send, _own(refused, scope, began, route=route))
        return
    answer = await arrive(scope, receive)
    if isinstance(answer, bytes):
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(threads, call_django, environ_of(scope, answer))
    if answer is not None:
        await send_answer(send, answer)


async def arrive(scope: MutableMapping[str, Any], receive: Receive) -> bytes | Answer | None:
    """The body of a request, or the answer where Django is not asked. None: the client left."""
    began = time.monotonic()
    if scope["path"].rstrip("/") == HEALTH and scope["method"] in {"GET", "HEAD"}:
        # Also while every thread waits for a database that is away.
        return _own(ALIVE, scope, began, route="healthz")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _gather(receive)
    except ClientLeft:
        _own((CLIENT_LEFT, [], b""), scope, began)
        return None
    except TimeoutError:
        return _own(refuse(BodyTimeout(), scope["path"]), scope, began)
    except TooLarge as refusal:
        return _own(refuse(refusal, scope["path"]), scope, began)


async def send_answer(send: Send, answer: Answer) -> None:
    """Send a whole answer."""
    status, headers, content = answer
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content, "more_body": False})


def _own(
    answer: Answer, scope: MutableMapping[str, Any], began: float, *, route: str = "none"
) -> Answer:
    """An answer that Django knows nothing of, with an id, written and counted like the others."""
    status, headers, content = answer
    sent = dict(scope["headers"])
    given = sent.get(context.HEADER.lower().encode(), b"")
    is_secure = sent.get(b"x-forwarded-proto") == b"https"
    request_id = context.request_id_from(given.decode("latin-1"))
    took_s = time.monotonic() - began
    with context.at_work_for(request=request_id):
        access.note(route=route, method=scope["method"], status=status, took_s=took_s)
    ours = {context.HEADER: request_id, **policy.headers(is_secure=is_secure)}
    return status, [*headers, *_encoded(ours.items())], content


async def _gather(receive: Receive) -> bytes:
    """The whole body. Raises TooLarge over the limit, ClientLeft when the connection ended."""
    parts = []
    size = 0
    has_more = True
    while has_more and size <= DRAIN_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        part = message.get("body", b"")
        has_more = message.get("more_body", False)
        size += len(part)
        if size <= settings.MAX_BODY_BYTES:
            parts.append(part)
    if size > settings.MAX_BODY_BYTES:
        raise TooLarge
    return b"".join(parts)


def refuse(refusal: Refusal, path: str) -> Answer:
    """What a refusal is answered with at a path, after which the connection ends."""
    document, media_type, named = document_of(refusal, path)
    content = json.dumps(document).encode()
    headers = {
        "Content-Type": media_type,
        "Content-Length": str(len(content)),
        "Connection": "close",
        **named,
    }
    return refusal.status, _encoded(headers.items()), content


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def environ_of(scope: MutableMapping[str, Any], body: bytes) -> dict[str, Any]:
    """The request, which is whole now, as PEP 3333 wants it."""
    path = unquote_to_bytes(scope.get("raw_path") or scope["path"])
    host, port = scope.get("server") or ("", 0)
    client = scope.get("client") or ("", 0)
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": path.decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or ""),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
    }
    for name, value in scope["headers"]:
        if b"_" in name:  # would pass for the header with a hyphen
            continue
        key = UNPREFIXED.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    environ["CONTENT_LENGTH"] = str(len(body))
    environ[access.ARRIVED] = time.monotonic()
    return environ


def call_django(environ: dict[str, Any]) -> Answer:
    """Django's whole answer."""
    started: list[tuple[int, list[tuple[bytes, bytes]]]] = []
    parts: list[bytes] = []  # PEP 3333's write(), which Django never calls

    def start_response(
        status: str, headers: list[tuple[str, str]], *_: object
    ) -> Callable[[bytes], object]:
        started.append((int(status[:3]), _encoded(headers)))
        return parts.append

    response = django_application(environ, start_response)
    try:
        parts.extend(response)
    finally:
        response.close()
    status, headers = started[-1]
    return status, headers, b"".join(parts)
