"""A provider without a model, for rehearsing the ugly path: it answers, or fails as it is asked to.

Both protocols of the seam, and one fault per marker in the prompt: `[[rehearse:503]]`. Whoever asks
for a stream gets one, word by word. It knows nothing of the product but its wire.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import resource
import signal
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TextIO

from reports import recital

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MARKER = re.compile(r"\[\[rehearse:([a-z0-9]+)(?::(\d{1,6}(?:\.\d{1,3})?))?\]\]")
LONGEST_HEAD = 64 * 1024
LONGEST_BODY = 4 * 1024 * 1024
HUGE_BYTES = 1024 * 1024 * 1024
BACKLOG = 4096
EVERY_S = 0.5  # a byte, when it drips
JSON = "application/json"
EVENTS = "text/event-stream"
JUNK = "<!doctype html><title>Welcome</title><p>A page where an answer should be.</p>"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_chat(self) -> bool:
        """Whether the path asks for chat completions."""
        return self.path.partition("?")[0].endswith("/chat/completions")

    @property
    def wants_stream(self) -> bool:
        """Whether it asks for the answer in events: chat in its body, else by what it accepts."""
        if self.is_chat:
            return bool(json.loads(self.body).get("stream"))
        return EVENTS in self.headers.get("accept", "")

    @property
    def prompt(self) -> str | None:
        """The prompt; None if there is none where the protocol has it."""
        try:
            value = json.loads(self.body)
            found = value["messages"][-1]["content"] if self.is_chat else value["prompt"]
        except (ValueError, LookupError, TypeError):
            return None
        return found if isinstance(found, str) else None


class Exchange:
    """The answering side of one request."""

    def __init__(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.request = request
        self._reader = reader
        self._writer = writer

    async def wait(self, seconds: float | None) -> None:
        """Let time pass (None: no end); raises ConnectionResetError once the client has left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._reader.read(1)
                raise ConnectionResetError

    async def start(
        self, status: int, length: int | None, *, kind: str = JSON, more: str = ""
    ) -> None:
        """Send the head of an answer; without a length its body comes in chunks."""
        size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {kind}\r\n{size}\r\n"
        )
        await self.send(f"{head}{more}\r\n".encode())

    async def send(self, piece: bytes) -> None:
        """Send as it is."""
        self._writer.write(piece)
        await self._writer.drain()

    async def answer(self, status: int, body: str, *, kind: str = JSON, more: str = "") -> None:
        """Send a whole answer."""
        raw = body.encode()
        await self.start(status, len(raw), kind=kind, more=more)
        await self.send(raw)

    async def fail(self, status: int, said: str, *, more: str = "") -> None:
        """Send an error as the providers word it."""
        error = {"message": said, "type": "rehearsal", "param": None, "code": status}
        await self.answer(status, json.dumps({"error": error}), more=more)

    def reset(self) -> None:
        """Drop the connection with a reset, as a process that died does."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def _busy(exchange: Exchange, _: float) -> None:
    await exchange.fail(503, "Rehearsed: the model is overloaded.")


async def _limited(exchange: Exchange, _: float) -> None:
    await exchange.fail(429, "Rehearsed: too many requests.", more="Retry-After: 7\r\n")


async def _hang(exchange: Exchange, _: float) -> None:
    await exchange.wait(None)


async def _drip(exchange: Exchange, _: float) -> None:
    await exchange.start(200, None)
    while True:
        await exchange.send(b"1\r\n \r\n")
        await exchange.wait(EVERY_S)


async def _reset(exchange: Exchange, _: float) -> None:
    exchange.reset()


async def _junk(exchange: Exchange, _: float) -> None:
    await exchange.answer(200, JUNK, kind="text/html")


async def _empty(exchange: Exchange, _: float) -> None:
    await exchange.answer(200, "")


async def _huge(exchange: Exchange, _: float) -> None:
    await exchange.start(200, HUGE_BYTES)
    piece = b" " * 65536
    for _sent in range(HUGE_BYTES // len(piece)):
        await exchange.send(piece)


async def _slow(exchange: Exchange, seconds: float) -> None:
    if not exchange.request.wants_stream:
        await exchange.wait(seconds)
    await _speak(exchange, seconds)


async def _speak(exchange: Exchange, seconds: float) -> None:
    """Answer: at once, or event by event, evenly over so many seconds."""
    prompt, is_chat = exchange.request.prompt or "", exchange.request.is_chat
    if not exchange.request.wants_stream:
        await exchange.answer(200, recital.whole(prompt, is_chat=is_chat))
        return
    events = recital.events(prompt, is_chat=is_chat)
    await exchange.start(200, None, kind=EVENTS)
    for event in events:
        if seconds:
            await exchange.wait(seconds / len(events))
        await exchange.send(f"{len(event.encode()):x}\r\n{event}\r\n".encode())
    await exchange.send(b"0\r\n\r\n")


FAULTS: dict[str, Callable[[Exchange, float], Awaitable[None]]] = {
    "503": _busy,
    "429": _limited,
    "hang": _hang,
    "drip": _drip,
    "reset": _reset,
    "junk": _junk,
    "empty": _empty,
    "huge": _huge,
    "slow": _slow,
}


class Rehearsal:
    """The server; `call_log` gets one line of JSON per request before it is answered."""

    def __init__(self, *, latency_s: float = 0.0, call_log: TextIO | None = None) -> None:
        self.latency_s = latency_s
        self._call_log = call_log
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def serve(self, host: str, port: int, *, ready: Callable[[int], None]) -> None:
        """Serve until SIGINT or SIGTERM; tells `ready` the port, raises OSError if it is taken."""
        _allow_many_connections()
        server = await asyncio.start_server(
            self._connection, host, port, limit=LONGEST_HEAD, backlog=BACKLOG
        )
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        ready(server.sockets[0].getsockname()[1])
        await stop.wait()
        server.close()
        for writer in self._open:
            writer.transport.abort()  # which wakes its task, wherever it waits
        await asyncio.gather(*filter(None, self._open.values()))

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = asyncio.current_task()
        try:
            while request := await _receive(reader):
                await self._answer(Exchange(request, reader, writer))
        except ConnectionError:
            pass  # the client left, which is its right and half of what is rehearsed here
        finally:
            del self._open[writer]
            writer.close()

    async def _answer(self, exchange: Exchange) -> None:
        prompt = exchange.request.prompt
        if prompt is None:
            await exchange.fail(400, "This is the rehearsal provider; it takes a prompt by POST.")
            return
        name, seconds = "", 0.0
        if marker := MARKER.search(prompt):
            name, seconds = marker[1], float(marker[2] or 0)
        self._note(exchange.request, prompt, fault=name)
        if self.latency_s:
            await exchange.wait(self.latency_s)
        if name and name not in FAULTS:
            await exchange.fail(400, f"There is no fault {name}; there are {', '.join(FAULTS)}.")
            return
        await FAULTS.get(name, _speak)(exchange, seconds)

    def _note(self, request: Request, prompt: str, *, fault: str) -> None:
        if self._call_log is None:
            return
        line = {
            "job_id": request.headers.get("idempotency-key", ""),
            "at": time.time(),
            "fault": fault,
            "prompt_sha256": hashlib.sha256(prompt.encode(errors="replace")).hexdigest(),
        }
        self._call_log.write(json.dumps(line) + "\n")
        self._call_log.flush()


async def _receive(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length") or 0)
        if not 0 <= length <= LONGEST_BODY:
            return None
        return Request(first.split(" ")[1], headers, await reader.readexactly(length))
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError):
        return None  # the end of the connection, or nothing that we could answer


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
