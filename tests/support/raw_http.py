"""HTTP over a bare socket: many clients repair or refuse what these requests are about."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATIENCE_S = 30
MARK = b"HTTP/1.1 "


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer on a connection, and how many answers there were."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    how_many: int
    wire: bytes = field(repr=False)

    @property
    def steady(self) -> bytes:
        """Every byte but the date."""
        lines = self.wire.split(b"\r\n")
        return b"\r\n".join(line for line in lines if not line.lower().startswith(b"date:"))


def request(
    method: str, path: str, headers: Iterable[tuple[bytes, bytes]], body: bytes = b"", *, host: str
) -> bytes:
    """The bytes of one request; a length and a host only where the headers name none."""
    lines = [*headers]
    named = {name.lower() for name, _ in lines}
    if b"host" not in named:
        lines.insert(0, (b"Host", host.encode()))
    if b"content-length" not in named and b"transfer-encoding" not in named:
        lines.append((b"Content-Length", str(len(body)).encode()))
    lines.append((b"Connection", b"close"))
    first = f"{method} {path} HTTP/1.1".encode()
    return b"\r\n".join([first, *(name + b": " + text for name, text in lines), b"", body])


def chunked(body: bytes, *, size: int = 4096) -> bytes:
    """A body in chunks."""
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])


def connect(address: str) -> socket.socket:
    """A connection to an http:// address."""
    place = urlsplit(address)
    assert place.hostname is not None
    return socket.create_connection((place.hostname, place.port or 80), timeout=PATIENCE_S)


def send(address: str, data: bytes) -> Answer:
    """Send these bytes on a new connection and read until the server closes it."""
    with connect(address) as connection:
        connection.sendall(data)
        return read(connection)


def read(connection: socket.socket) -> Answer:
    """Read until the server closes; interim answers are skipped."""
    wire = b""
    while part := connection.recv(65536):
        wire += part
    final = wire
    while final.startswith(MARK + b"1"):
        final = final.partition(b"\r\n\r\n")[2]
    head, _, content = final.partition(b"\r\n\r\n")
    first, _, rest = head.partition(b"\r\n")
    assert first.startswith(MARK), wire[:200]
    headers = BytesHeaderParser().parsebytes(rest + b"\r\n\r\n")
    status = int(first.removeprefix(MARK)[:3])
    return Answer(status, dict(headers.items()), content, wire.count(MARK), final)
