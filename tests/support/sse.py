"""A client of event streams that notes what came, over real HTTP, and may leave at any time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was dispatched."""

    kind: str
    mark: str
    data: Any


def parse(lines: Iterator[str]) -> Iterator[Event]:
    """The events in the lines of a stream (HTML standard, 9.2.6), for data in one line each."""
    told: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            told[name] = value.removeprefix(" ")
        else:
            if "data" in told:
                yield Event(told["event"], told.get("id", ""), json.loads(told["data"]))
            told = {}


@dataclass(slots=True)
class Listener:
    """One client; `leave` and `come_back` are a connection that was lost."""

    address: str
    headers: dict[str, str]
    events: list[Event] = field(default_factory=list)
    answer: requests.Response | None = None
    _coming: Iterator[Event] | None = None

    def open(self) -> Self:
        """Connect, as one that has seen what this one has."""
        headers = {"Accept": "text/event-stream", **self.headers}
        if self.events:
            headers["Last-Event-ID"] = self.events[-1].mark
        self.answer = requests.get(self.address, headers=headers, stream=True, timeout=PATIENCE_S)
        self._coming = parse(self.answer.iter_lines(chunk_size=1, decode_unicode=True))
        return self

    def next(self) -> Event:
        """The next event; StopIteration at the end of the stream."""
        assert self._coming is not None
        self.events.append(next(self._coming))
        return self.events[-1]

    def rest(self) -> list[Event]:
        """All that comes until the stream ends."""
        assert self._coming is not None
        came = list(self._coming)
        self.events += came
        return came

    def leave(self) -> None:
        """Cut the connection."""
        assert self.answer is not None
        self.answer.close()

    def statuses(self) -> list[str]:
        """The states that were told."""
        return [event.data["status"] for event in self.events if event.kind == "status"]
