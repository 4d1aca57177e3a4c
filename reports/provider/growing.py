"""An answer that comes in events: what it has come to so far, while it is still coming.

One thread adds to it and others may look: a look costs the first one nothing.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from reports.provider import reading, wording
from reports.provider.outcome import Failure, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports.provider.outcome import Completion
    from reports.provider.protocols import WireProtocol

END = b"[DONE]"
MEDIA_TYPE = "text/event-stream"
# What a body begins with that is a stream, whatever its headers say.
BEGINNINGS = (b"data:", b"event:", b"id:", b"retry:", b":")
SURROGATE = re.compile("[\ud800-\udfff]")
HALF = re.compile("[\ud800-\udbff]\\Z")
CUT = "The provider's answer was cut short: its stream has no end."


class Growing:
    """The parts of a text, and what was said beside it. Made anew for each call."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.size = 0  # of the parts, in bytes of UTF-8
        self.show: Callable[[str], str] = str
        self.reason: object = None
        self.refusal = ""
        self.usage: dict[str, object] = {}
        self.is_done = False  # the stream said so itself: its end is no cut
        self.failure: Failure | None = None

    def say(self, text: object) -> None:
        """Add to the text; what is none adds nothing."""
        if isinstance(text, str) and text:
            self.parts.append(text)
            self.size += len(text.encode(errors="replace"))

    def refuse(self, text: object) -> None:
        """Add to what the model says instead of a text."""
        if isinstance(text, str):
            self.refusal += text

    def count(self, usage: object) -> None:
        """Keep the newest of each count; what is none changes nothing."""
        if isinstance(usage, dict):
            self.usage |= {name: count for name, count in usage.items() if count is not None}

    def stop(self, reason: object) -> None:
        """Keep the reason, if it is one: nothing of the text is missing then."""
        if isinstance(reason, str) and reason:
            self.reason = reason
            self.is_done = True

    def break_off(self, value: object) -> None:
        """Keep the provider's own complaint: whatever comes after it, this was no answer."""
        said = wording.message(json.dumps({"error": value}).encode())
        colon = f": {said}" if said else "."
        self.failure = self.failure or invalid(f"The provider broke off its answer{colon}")

    @property
    def text(self) -> str:
        """The text so far."""
        return _paired("".join(self.parts))

    @property
    def beside(self) -> dict[str, object]:
        """The counts, where a whole answer has them."""
        return {"usage": self.usage}

    @property
    def shown(self) -> str:
        """As much of it as a person may see while more is coming; it only grows."""
        return wording.storable(self.show(_paired(HALF.sub("", "".join(self.parts)))))


class Events:
    """Finds the objects in the bytes of an event stream, however these are cut into pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    @property
    def size(self) -> int:
        """Bytes that are kept until more comes."""
        return len(self._rest) + sum(map(len, self._data))

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that this piece completes (HTML standard, 9.2.6)."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found = []
        for ended in lines:
            line = ended.rstrip(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found

    def end(self) -> list[bytes]:
        """What was left without the blank line behind it, as some servers end."""
        return self.feed(b"\n\n")


class Taking:
    """Takes an answer that comes in events into a Growing, by the rules of one protocol."""

    def __init__(self, protocol: WireProtocol, growing: Growing) -> None:
        self._protocol = protocol
        self._events = Events()
        self.growing = growing
        growing.show = protocol.shown

    @property
    def size(self) -> int:
        """Bytes that are kept: the text, and the beginning of an event."""
        return self.growing.size + self._events.size

    def feed(self, piece: bytes) -> None:
        """Take the next bytes."""
        for data in self._events.feed(piece):
            self._take(data)

    def outcome(self) -> Completion | Failure:
        """What the whole stream comes to; the detail of a Failure is not yet safe to show."""
        for data in self._events.end():
            self._take(data)
        if self.growing.failure is not None:
            return self.growing.failure
        return self._protocol.conclude(self.growing) if self.growing.is_done else invalid(CUT)

    def _take(self, data: bytes) -> None:
        if data.strip() == END:
            self.growing.is_done = True
            return
        event = reading.an_object(200, data)
        if isinstance(event, Failure):
            self.growing.failure = self.growing.failure or event
        elif event.get("error"):
            self.growing.break_off(event["error"])
        else:
            self._protocol.fold(event, self.growing)


def _paired(text: str) -> str:
    """A character in two halves, each of which came in a part of its own, is one again."""
    if SURROGATE.search(text):
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
