"""The dialect of /reports/{id}/events: each state as GET shows it, and the text that grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.renderers import JSONRenderer

from reports import serializers
from streams import frames, marks
from streams.marks import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.models import ReportJob
    from streams.dialects import State


class Ours:
    """`status` and `text` events; what a client has seen is a Mark."""

    def say(self, job: ReportJob) -> bytes:
        """The event of a state, with the JSON that GET answers."""
        # JSON in one line: a line end inside a text is escaped.
        data = JSONRenderer().render(serializers.detail(job))
        return frames.event("status", data, mark=marks.state_of(job))

    def lacking(self, seen: Mark, state: State[bytes], text: str) -> Iterator[tuple[Mark, bytes]]:
        """The state, unless it was seen, and behind it what is new of its text.

        A client that reads slowly misses states that had passed by the time it read on.
        """
        # Another client may have made us read a state that is older than what this one was told.
        if seen.state != state.word and marks.since(state.word) >= marks.since(seen.state):
            seen = Mark(state.word)
            yield seen, state.said
        # A text belongs to a state, so that it never begins anew within one.
        if seen.state == state.word and len(text) > seen.offset:
            begin, seen = seen.offset, Mark(state.word, len(text))
            data = JSONRenderer().render({"offset": begin, "text": text[begin:]})
            yield seen, frames.event("text", data, mark=str(seen))


OURS = Ours()
