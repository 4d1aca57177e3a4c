"""The stand-in for the provider: real sockets on loopback, scripted to the byte."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

from tests.support.waiting import LOOK_EVERY_S

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator, Mapping

JSON = {"Content-Type": "application/json"}
ABORT = struct.pack("ii", 1, 0)  # SO_LINGER that turns a close into a reset


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it was received."""

    path: str
    headers: Mapping[str, str]  # by lower-case name
    body: bytes
    at: float  # time.monotonic()
    connection: int  # counted from 1

    @property
    def job_id(self) -> str:
        """The idempotency key, which is the job's id."""
        return self.headers.get("idempotency-key", "")

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to do with one request."""

    body: bytes = b'{"text": "hello"}'
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    wire: bytes | None = None  # exactly these bytes instead of head and body
    endless: bytes = b""  # sent again and again after the body
    drip: tuple[int, float] | None = None  # so many bytes of the body, then so many seconds
    waits: tuple[int, Callable[[], object]] | None = None  # so many bytes, the rest once it is so
    drips_head: bool = False  # drip the head as well
    hang: bool = False  # send nothing
    reset_after: int | None = None  # body bytes before a reset
    keep_open: bool = True  # the next request may come over the same connection
    close_idle_after_s: float | None = None

    @classmethod
    def of(cls, value: object, **rest: Any) -> Answer:
        """Answer with a value as JSON."""
        return cls(json.dumps(value).encode(), **rest)

    def head(self) -> bytes:
        """The head, with a Content-Length unless the headers say how the body ends."""
        headers = dict(self.headers)
        if not {"content-length", "transfer-encoding"} & {name.lower() for name in headers}:
            headers["Content-Length"] = str(len(self.body))
        lines = [f"HTTP/1.1 {self.status} Scripted", *(f"{n}: {v}" for n, v in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    def pieces(self) -> Iterator[bytes | float | Callable[[], object]]:
        """Bytes to send, seconds to wait and conditions to wait for, in order."""
        head, body = (self.head(), self.body) if self.wire is None else (b"", self.wire)
        if self.drips_head:
            head, body = b"", head + body
        yield head
        if self.waits is not None:
            at, is_so = self.waits
            yield body[:at]
            yield is_so
            body = body[at:]
        size, pause_s = self.drip or (len(body) or 1, 0.0)
        for at in range(0, len(body), size):
            yield body[at : at + size]
            yield pause_s
        if self.endless:
            for unit in repeat(self.endless):
                yield unit
                yield pause_s


class Provider:
    """A server whose answers are scripted; the last one is given to all later requests.

    `with Provider(Answer(status=503)) as provider:` listens on `provider.url`.
    """

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers) or [Answer()]
        self.calls: list[Call] = []
        self._tls = tls
        self._changed = threading.Condition()
        self._gate = threading.Event()
        self._gate.set()
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """Where the protocol is `prompt`."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/complete"

    @property
    def chat_url(self) -> str:
        """Where the protocol is `openai`."""
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def script(self, *answers: Answer) -> None:
        """Answer the requests from now on with these, in order."""
        with self._changed:
            self.calls.clear()
            self.answers = list(answers)

    def hold(self) -> None:
        """Keep every request waiting for its answer from now on."""
        self._gate.clear()

    def release(self) -> None:
        """Answer those that wait, and the next ones at once."""
        self._gate.set()

    def wait_for_calls(self, count: int, *, limit_s: float = 10.0) -> list[Call]:
        """Return once at least so many requests have been received."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.calls) >= count, timeout=limit_s):
                raise AssertionError(f"{len(self.calls)} of {count} calls within {limit_s:g} s")
            return list(self.calls)

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._gate.set()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._listener.close()
        with self._changed:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            threads = list(self._threads)
        for thread in threads:
            thread.join(timeout=10)
            assert not thread.is_alive(), f"{thread.name} did not end"

    def _start(self, work: Any, *args: object) -> None:
        thread = threading.Thread(target=work, args=args, name="stand-in", daemon=True)
        with self._changed:
            self._threads = [t for t in self._threads if t.is_alive() or t.ident is None]
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self._open.add(connection)
            self._start(self._serve, connection, number)

    def _serve(self, bare: socket.socket, number: int) -> None:
        try:
            with bare, self._secured(bare) as connection, connection.makefile("rb") as stream:
                while not self._closing.is_set():
                    call = _receive(stream, number)
                    if call is None or not self._answer(connection, self._note(call)):
                        return
        except OSError:
            pass  # the client has left; whether it should have is for the test to say
        finally:
            with self._changed:
                self._open.discard(bare)

    def _secured(self, bare: socket.socket) -> socket.socket:
        # TLS takes its socket object away; the bare one stays, so that leaving can still end it.
        return self._tls.wrap_socket(bare.dup(), server_side=True) if self._tls else bare

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        with self._changed:
            return len(self._open)

    def _note(self, call: Call) -> Answer:
        with self._changed:
            answer = self.answers[min(len(self.calls), len(self.answers) - 1)]
            self.calls.append(call)
            self._changed.notify_all()
        self._gate.wait()
        return answer

    def _answer(self, connection: socket.socket, answer: Answer) -> bool:
        if answer.hang:
            connection.recv(1)  # nothing comes: this ends when the client or the test leaves
            return False
        if answer.reset_after is not None:
            if answer.reset_after:
                connection.sendall(answer.head() + answer.body[: answer.reset_after])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            return False
        for piece in answer.pieces():
            if isinstance(piece, bytes):
                connection.sendall(piece)
            elif callable(piece):
                while not piece():
                    if self._closing.wait(LOOK_EVERY_S):
                        return False
            elif piece and self._closing.wait(piece):
                return False
        connection.settimeout(answer.close_idle_after_s)
        return answer.keep_open


def _receive(stream: Any, number: int) -> Call | None:
    first = stream.readline()
    if not first:
        return None
    headers = {}
    while line := stream.readline().strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    path = first.decode("latin-1").split(" ")[1]
    return Call(path, headers, body, time.monotonic(), number)
