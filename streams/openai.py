"""The dialect of OpenAI's Responses API: the course of a response in events with numbers.

A number is a place in that course, and nothing is kept: 0 to 4 stand before the text, a delta that
ends behind k characters (Unicode code points) of it is 4 + k, and what follows a text of L
characters is 5 + L to 8 + L. So any process goes on behind any number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rest_framework.renderers import JSONRenderer

from responses import objects
from streams import frames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.models import ReportJob
    from streams.dialects import State

NOTHING = -1  # is what a new client has seen
CREATED, QUEUED, IN_PROGRESS, ITEM_ADDED, BEFORE_TEXT = range(5)
# What ends a course without a text: behind every delta that may have been sent of one.
NO_TEXT = 2**31 - 1
UNDERWAY = {CREATED: "queued", QUEUED: "queued", IN_PROGRESS: "in_progress"}
NOT_YET: dict[str, Any] = {
    "output": [],
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
    "usage": None,
}
MESSAGE = {"type": "message", "role": "assistant"}
PLACE = {"output_index": 0, "content_index": 0}

Told = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Course:
    """What there is to tell of a response as it is now."""

    before: tuple[Told, ...] = field(repr=False)
    after: tuple[Told, ...] = field(repr=False)
    item_id: str
    text: str = field(repr=False)  # once it is whole


class OpenAI:
    """The typed events of the SDK; what a client has seen is the number of the last.

    Only `event` and `data`: after an `id` or `retry` the SDK takes a comment for an empty event.
    """

    def say(self, job: ReportJob) -> Course:
        """Its events so far, but those of a text that is being written."""
        now = objects.response_of(job)
        kinds = ["response.created", "response.queued"]
        if job.started_at is not None:
            kinds.append("response.in_progress")
        before = tuple(
            _event(kind, number, response={**now, **NOT_YET, "status": UNDERWAY[number]})
            for number, kind in enumerate(kinds)
        )
        text = job.result_text
        after = _ending(now, text) if job.is_terminal else ()
        return Course(before, after, objects.message_of(job)["id"], text)

    def lacking(self, seen: int, state: State[Course], text: str) -> Iterator[tuple[int, bytes]]:
        """Every event of a larger number; what is new of a text is one delta."""
        course = state.said
        written = _written(course.item_id, course.text or text, seen)
        for number, piece in (*course.before, *written, *course.after):
            if number > seen:
                yield number, piece


def _written(item_id: str, text: str, seen: int) -> Iterator[Told]:
    """What is told of a text to who has seen so much."""
    if text and seen < BEFORE_TEXT:
        item = {"id": item_id, "status": "in_progress", "content": [], **MESSAGE}
        yield _event("response.output_item.added", ITEM_ADDED, output_index=0, item=item)
        part = {"type": "output_text", "text": "", "annotations": []}
        where = {"item_id": item_id, **PLACE}
        yield _event("response.content_part.added", BEFORE_TEXT, **where, part=part)
    if len(text) > (begin := max(0, seen - BEFORE_TEXT)):
        where = {"item_id": item_id, **PLACE, "delta": text[begin:], "logprobs": []}
        yield _event("response.output_text.delta", BEFORE_TEXT + len(text), **where)


def _ending(now: dict[str, Any], text: str) -> tuple[Told, ...]:
    if not now["output"]:
        # No event of the SDK says that a response was cancelled; its `status` does.
        return (_event("response.failed", NO_TEXT, response=now),)
    [item] = now["output"]
    [part] = item["content"]
    where = {"item_id": item["id"], **PLACE}
    behind = BEFORE_TEXT + len(text)
    return (
        _event("response.output_text.done", behind + 1, **where, text=text, logprobs=[]),
        _event("response.content_part.done", behind + 2, **where, part=part),
        _event("response.output_item.done", behind + 3, output_index=0, item=item),
        _event(f"response.{now['status']}", behind + 4, response=now),
    )


def _event(kind: str, number: int, **members: object) -> Told:
    data = JSONRenderer().render({"type": kind, "sequence_number": number, **members})
    return number, frames.event(kind, data)


OPENAI = OpenAI()
