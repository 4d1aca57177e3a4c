"""The course of a response in OpenAI's events: every number is a place to go on at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from reports.errors import ErrorCode
from reports.models import ReportJob, Status
from streams import frames
from streams.dialects import State
from streams.openai import NO_TEXT, NOTHING, OPENAI
from tests.support import sdk, sse

AT = datetime(2026, 11, 30, 1, tzinfo=UTC)
# A line end, a pair of UTF-16, a letter with an accent of its own, a separator of JavaScript.
TEXT = "one\r\ntwo \N{GRINNING FACE} e\N{COMBINING ACUTE ACCENT} \u2028 ende"
SIZE = len(TEXT)
ANY_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
WITH_TEXT = [
    "response.created",
    "response.queued",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


def job_in(status: str, **columns: Any) -> ReportJob:
    """A job that is in no database."""
    started = {} if status == Status.QUEUED else {"started_at": AT}
    ended = {} if status in {Status.QUEUED, Status.RUNNING} else {"finished_at": AT}
    return ReportJob(status=status, created_at=AT, **{**started, **ended, **columns})


def succeeded(**columns: Any) -> ReportJob:
    """One that has its text."""
    return job_in("succeeded", result_text=TEXT, **{"finish_reason": "stop", **columns})


def state_of(job: ReportJob) -> State[Any]:
    """As a stream would read it."""
    return State(job.status, OPENAI.say(job), job.is_terminal)


def told(job: ReportJob, *, after: int = NOTHING, text: str = "") -> list[dict[str, Any]]:
    """The events that a client gets which has seen so much, as they come over the wire."""
    pieces = list(OPENAI.lacking(after, state_of(job), text))
    wire = b"".join(piece for _, piece in pieces).decode()
    events = list(sse.parse(iter(wire.split("\n"))))
    assert [event.kind for event in events] == [event.data["type"] for event in events]
    assert [event.data["sequence_number"] for event in events] == [number for number, _ in pieces]
    return [event.data for event in events]


def numbers(events: list[dict[str, Any]]) -> list[int]:
    """Of these events."""
    return [event["sequence_number"] for event in events]


def put_together(events: list[dict[str, Any]]) -> str:
    """The text in the deltas of these events."""
    return "".join(event.get("delta", "") for event in events)


def test_a_whole_course_is_typed_events_with_numbers_that_are_places():
    events = told(succeeded())

    assert [event["type"] for event in events] == [*WITH_TEXT, "response.completed"]
    assert numbers(events) == [0, 1, 2, 3, 4, *(4 + SIZE + step for step in range(5))]
    for event in events:
        ANY_EVENT.validate_python(event, strict=True)
    lives = [event["response"] for event in events if "response" in event]
    assert [life["status"] for life in lives] == ["queued", "queued", "in_progress", "completed"]
    assert [bool(life["output"]) for life in lives] == [False, False, False, True]
    assert events[5]["delta"] == events[6]["text"] == TEXT
    assert events[7]["part"]["text"] == events[8]["item"]["content"][0]["text"] == TEXT
    assert {event["item_id"] for event in events if "item_id" in event} == {events[8]["item"]["id"]}


def test_who_goes_on_behind_any_number_gets_the_rest_and_nothing_else():
    job = succeeded()
    whole = told(job)
    last = numbers(whole)[-1]

    for after in range(-1, last + 2):
        events = told(job, after=after)
        assert numbers(events) == [number for number in numbers(whole) if number > after]
        assert put_together(events) == TEXT[max(0, after - 4) :]
    assert told(job, after=NO_TEXT) == []


def test_a_text_that_grows_is_told_in_parts_wherever_its_readers_come_from():
    grown = [TEXT[:size] for size in (0, 1, 2, 7, 8, 11, SIZE)]
    running, done = job_in("running"), succeeded()

    for size in range(SIZE + 1):
        # One that was there until the text was so long, was cut off, and comes back at any time.
        seen = told(running, text=TEXT[:size])
        after = numbers(seen)[-1]
        for text in grown:
            rest = told(running, after=after, text=text)
            assert all(number > after for number in numbers(rest))
            assert put_together(seen + rest) == TEXT[: max(size, len(text))]
        rest = told(done, after=after)
        assert put_together(seen + rest) == TEXT
        assert rest[-1]["type"] == "response.completed"
        assert numbers(seen + rest) == sorted(set(numbers(seen + rest)))


def test_a_job_that_is_put_off_takes_nothing_back():
    queued = told(job_in("queued"))
    running = told(job_in("running"), after=numbers(queued)[-1])

    assert numbers(queued + running) == [0, 1, 2]
    assert told(job_in("queued"), after=2) == []
    assert told(job_in("running"), after=2) == []
    assert put_together(told(job_in("running"), after=2, text="hello")) == "hello"


@pytest.mark.parametrize(
    ("reason", "why"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_a_text_that_was_cut_off_ends_as_incomplete(reason: str, why: str):
    events = told(succeeded(finish_reason=reason))

    assert [event["type"] for event in events] == [*WITH_TEXT, "response.incomplete"]
    assert events[-1]["response"]["incomplete_details"] == {"reason": why}
    assert events[-1]["response"]["status"] == events[-2]["item"]["status"] == "incomplete"
    ANY_EVENT.validate_python(events[-1], strict=True)


@pytest.mark.parametrize(
    ("code", "status"), [(ErrorCode.PROVIDER_5XX, "failed"), (ErrorCode.CANCELLED, "cancelled")]
)
def test_whoever_has_seen_a_part_of_a_text_is_told_that_its_job_failed(
    code: ErrorCode, status: str
):
    job = job_in("failed", error_code=code, error_detail="It broke.", http_status=503)
    # The longest text that may have been passed on, in characters of one byte.
    for after in (-1, 0, 4, 5, 4 + 64 * 1024, 4 + 1024 * 1024):
        events = told(job, after=after)
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["status"] == status
        assert put_together(events) == ""
        ANY_EVENT.validate_python(events[-1], strict=True)
        assert told(job, after=numbers(events)[-1]) == []


def test_the_sdk_reads_over_comments_and_ends_with_the_stream():
    course = OPENAI.lacking(NOTHING, state_of(succeeded()), "")
    wire = b"".join(piece + frames.STILL_HERE for _, piece in course)
    client = sdk.answered(lambda _: httpx2.Response(200, content=frames.STILL_HERE + wire))

    events = list(client.responses.retrieve("resp_1", stream=True))

    assert [event.type for event in events] == [*WITH_TEXT, "response.completed"]


def test_what_never_ran_was_never_in_progress():
    job = job_in("failed", error_code=ErrorCode.QUEUE_EXPIRED, started_at=None)

    assert [event["type"] for event in told(job)] == [*WITH_TEXT[:2], "response.failed"]
