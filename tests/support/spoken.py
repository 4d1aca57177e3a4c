"""A text of many words, as a provider of the protocol `prompt` would stream it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.provider import Answer

if TYPE_CHECKING:
    from threading import Event

WORDS = [f"wörd{number} \N{GRINNING FACE} " for number in range(40)]
TEXT = "".join(WORDS)
HEADERS = {"Content-Type": "text/event-stream"}


def spoken(*, pause_s: float, end: bool = True) -> Answer:
    """The words one by one."""
    events = [json.dumps({"text": word}) for word in WORDS]
    size = len(f"data: {events[20]}\n\n")
    if end:
        events.append(json.dumps({"finish_reason": "stop"}))
    body = "".join(f"data: {event}\n\n" for event in events).encode()
    return Answer(body, headers=HEADERS, drip=(size, pause_s))


def half_spoken(goes_on: Event, *, end: bool = True) -> Answer:
    """Half of the words at once, and the others when it goes on."""
    whole = spoken(pause_s=0, end=end)
    return replace(whole, waits=(len(whole.body) // 2, goes_on.is_set))
