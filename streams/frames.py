"""Events as they travel: the text/event-stream of the HTML standard."""

from __future__ import annotations

MEDIA_TYPE = "text/event-stream"
# Always UTF-8 by its standard; some clients take a text of which nothing is said for Latin-1.
CONTENT_TYPE = f"{MEDIA_TYPE}; charset=utf-8"
# Milliseconds until a client comes back by itself.
RETRY = b"retry: 2000\n\n"
STILL_HERE = b": still here\n\n"


def event(kind: str, data: bytes, *, mark: str = "") -> bytes:
    """An event with its data, which is one line, and if there is one the mark to come back with."""
    named = f"id: {mark}\n" if mark else ""
    return f"{named}event: {kind}\ndata: ".encode() + data + b"\n\n"
