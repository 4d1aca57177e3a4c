"""The load driver: so many kept connections, each sends its next request once it has its answer.

One process on one event loop and no HTTP library, since it shares two cores with what it measures.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HEAD_END = b"\r\n\r\n"
NO_BODY = frozenset({204, 304})
LATE_ANSWER_S = 30.0


@dataclass(slots=True)
class Load:
    """What became of the requests of one measurement."""

    took_s: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    lasted_s: float = 0.0
    answered: list[tuple[float, bytes]] = field(default_factory=list)  # of time.monotonic()

    @property
    def per_s(self) -> float:
        """Answers a second."""
        return len(self.took_s) / self.lasted_s

    def at(self, percent: int) -> float:
        """Milliseconds within which so many percent were answered."""
        return 1000 * statistics.quantiles(self.took_s, n=100, method="inclusive")[percent - 1]

    @property
    def most(self) -> float:
        """Milliseconds of the slowest answer."""
        return 1000 * max(self.took_s)


def request(
    method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> bytes:
    """One HTTP/1.1 request on loopback, ready to be sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def drive(
    port: int,
    make: Callable[[], bytes | None],
    *,
    connections: int = 16,
    for_s: float = 10.0,
    pause_s: float = 0.0,
) -> Load:
    """Send what `make` makes until the time is over or it makes None.

    `pause_s`: how long a connection rests between an answer and its next request.
    """
    return asyncio.run(_drive(port, make, connections, for_s, pause_s))


async def _drive(
    port: int, make: Callable[[], bytes | None], connections: int, for_s: float, pause_s: float
) -> Load:
    load = Load()
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    lanes = []
    for _ in range(connections):
        _, lane = await loop.create_connection(
            lambda: _Lane(make, load, ends_at=began + for_s, pause_s=pause_s), "127.0.0.1", port
        )
        lanes.append(lane)
    async with asyncio.timeout(for_s + LATE_ANSWER_S):
        await asyncio.gather(*(lane.done for lane in lanes))
    load.lasted_s = time.perf_counter() - began
    return load


class _Lane(asyncio.Protocol):
    def __init__(
        self, make: Callable[[], bytes | None], load: Load, *, ends_at: float, pause_s: float
    ) -> None:
        self._make, self._load, self._ends_at, self._pause_s = make, load, ends_at, pause_s
        self._received = b""
        self._missing = -1
        self._status = 0
        self._sent_at = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # what TCP gives
        self._transport = transport
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("closed while an answer was due"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._missing < 0:
            head, end, rest = self._received.partition(HEAD_END)
            if not end:
                return
            self._status = int(head[9:12])
            self._missing = 0 if self._status in NO_BODY else _length(head)
            self._received = rest
        if len(self._received) >= self._missing:
            self._load.took_s.append(time.perf_counter() - self._sent_at)
            self._load.statuses[self._status] += 1
            self._load.answered.append((time.monotonic(), self._received))
            self._received, self._missing = b"", -1
            if self._pause_s:
                asyncio.get_running_loop().call_later(self._pause_s, self._send)
            else:
                self._send()

    def _send(self) -> None:
        now = time.perf_counter()
        content = None if now >= self._ends_at else self._make()
        if content is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent_at = now
        self._transport.write(content)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError("an answer without a length")
