"""A provider that costs next to nothing: it answers every POST after a time that can be changed.

    python -m benchmarks.provider --port 8099

`PUT /delay/2.5` sets the seconds from now on, and calls that wait already keep theirs; `PUT
/release` answers all that wait. `GET /seen` says how many calls there were, how many wait, and
when the latest came.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

HEAD_END = b"\r\n\r\n"
ANSWER = json.dumps(
    {
        "text": "Light from the sun is scattered by air, and blue light most of all. " * 4,
        "usage": {"prompt_tokens": 10, "completion_tokens": 64},
    }
).encode()
KEPT = 10_000


class Desk:
    """What all connections share."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.calls = 0
        self.most_waiting = 0
        self.waiting: dict[Connection, asyncio.TimerHandle] = {}
        self.came_at: dict[str, float] = {}

    def take(self, connection: Connection, key: str) -> None:
        """Answer now or later."""
        self.calls += 1
        self.came_at[key] = time.monotonic()
        if len(self.came_at) > KEPT:
            self.came_at.pop(next(iter(self.came_at)))
        if not self.delay_s:
            connection.answer(ANSWER)
            return
        loop = asyncio.get_running_loop()
        self.waiting[connection] = loop.call_later(self.delay_s, self.end, connection)
        self.most_waiting = max(self.most_waiting, len(self.waiting))

    def end(self, connection: Connection) -> None:
        """Answer a call that waits."""
        if timer := self.waiting.pop(connection, None):
            timer.cancel()
            connection.answer(ANSWER)

    def control(self, method: str, path: str) -> bytes:
        """Do what the benchmark asks for."""
        if method == "PUT" and path == "/release":
            for connection in list(self.waiting):
                self.end(connection)
        elif method == "PUT":
            self.delay_s = float(path.removeprefix("/delay/"))
            self.most_waiting = len(self.waiting)
        seen = {
            "calls": self.calls,
            "waiting": len(self.waiting),
            "most_waiting": self.most_waiting,
            "came_at": self.came_at,
        }
        return json.dumps(seen).encode()


class Connection(asyncio.Protocol):
    """One kept connection, one request at a time."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101  # what TCP gives
        self._transport = transport

    def connection_lost(self, _error: Exception | None) -> None:
        """Nobody waits for this answer any more."""
        if timer := self._desk.waiting.pop(self, None):
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Serve a request once it is whole."""
        self._received += data
        head, end, body = self._received.partition(HEAD_END)
        if not end:
            return
        lines = head.decode("latin-1").split("\r\n")
        named = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:])}
        if len(body) < int(named.get("content-length", 0)):
            return
        self._received = b""
        method, path, _ = lines[0].split(" ")
        if method == "POST":
            self._desk.take(self, named.get("idempotency-key", ""))
        else:
            self.answer(self._desk.control(method, path))

    def answer(self, content: bytes) -> None:
        """Send a 200."""
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(content)}"
        )
        self._transport.write(head.encode() + HEAD_END + content)


async def serve(port: int) -> None:
    """Until the process is ended."""
    desk = Desk()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(desk), "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """Read the command line."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--port", type=int, required=True)
    asyncio.run(serve(words.parse_args().port))


if __name__ == "__main__":
    main()
