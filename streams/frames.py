"""Events as they travel: the text/event-stream of the HTML standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.renderers import JSONRenderer

from reports import serializers
from streams import marks

if TYPE_CHECKING:
    from reports.models import ReportJob
    from streams.marks import Mark

MEDIA_TYPE = "text/event-stream"
# Always UTF-8 by its standard; some clients take a text of which nothing is said for Latin-1.
CONTENT_TYPE = f"{MEDIA_TYPE}; charset=utf-8"
# Milliseconds until a client comes back by itself.
RETRY = b"retry: 2000\n\n"
STILL_HERE = b": still here\n\n"


def status(job: ReportJob) -> bytes:
    """The event of a state, with the JSON that GET answers."""
    # JSON in one line: a line end inside a text is escaped.
    return _event("status", marks.state_of(job), JSONRenderer().render(serializers.detail(job)))


def text(mark: Mark, *, offset: int, part: str) -> bytes:
    """The event of a text that has grown: what is new, behind `offset` characters of it.

    Characters are Unicode code points.
    """
    data = JSONRenderer().render({"offset": offset, "text": part})
    return _event("text", str(mark), data)


def _event(kind: str, mark: str, data: bytes) -> bytes:
    return f"id: {mark}\nevent: {kind}\ndata: ".encode() + data + b"\n\n"
