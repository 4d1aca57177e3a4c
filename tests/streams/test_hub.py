"""Streams without a network: who is told what, and what a slow reader finds."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest

from streams import application, marks
from streams.dialects import State
from streams.hub import Hub
from streams.marks import Mark
from streams.openai import OPENAI, Course
from streams.ours import OURS
from streams.rights import Right
from streams.views import Opening

if TYPE_CHECKING:
    from collections.abc import Coroutine

JOB = UUID("01a228b8-68a8-7ae5-bc7f-a66f5088f81b")
TOPIC = (JOB, OURS)
QUEUED, RUNNING, SUCCEEDED = (
    State(f"{at}-{status}", f"<{status}>".encode(), status == "succeeded")
    for at, status in enumerate(("queued", "running", "succeeded"))
)


def run(story: Coroutine[Any, Any, None]) -> None:
    """Play a story on a loop of its own."""
    asyncio.run(story)


def seen(state: State[bytes], *, user_id: int = 1) -> Opening:
    """Of a client that was told this state."""
    return Opening(JOB, Right(user_id, token_id=user_id), OURS, state.word, Mark(state.word))


def hub() -> Hub:
    """A hub that reads nothing."""
    return Hub(ThreadPoolExecutor(1))


def test_all_who_watch_are_told_of_a_new_state_once():
    async def story() -> None:
        ours = hub()
        one, other = ours.join(seen(QUEUED)), ours.join(seen(QUEUED))
        for _ in range(2):
            ours.spread({TOPIC: RUNNING})

        assert [list(one.take()), list(one.take())] == [[b"<running>"], []]
        assert list(other.take()) == [b"<running>"]
        assert not one.is_over

    run(story())


def test_a_slow_reader_finds_the_last_state_and_no_line_of_them():
    async def story() -> None:
        ours = hub()
        slow = ours.join(seen(QUEUED))
        ours.spread({TOPIC: RUNNING})
        ours.spread({TOPIC: SUCCEEDED})

        assert list(slow.take()) == [b"<succeeded>"]
        assert slow.is_over

    run(story())


def test_who_was_told_a_later_state_than_we_know_is_not_taken_back():
    async def story() -> None:
        ours = hub()
        early = ours.join(seen(QUEUED))
        late = ours.join(seen(RUNNING))
        ours.spread({TOPIC: QUEUED})
        assert (list(early.take()), list(late.take())) == ([], [])

        ours.spread({TOPIC: RUNNING})
        assert (list(early.take()), list(late.take())) == ([b"<running>"], [])

    run(story())


def test_who_was_told_an_earlier_state_than_we_know_is_told_the_later_one():
    async def story() -> None:
        ours = hub()
        ours.join(seen(RUNNING))
        late = ours.join(seen(QUEUED))
        ours.spread({TOPIC: RUNNING})

        assert list(late.take()) == [b"<running>"]

    run(story())


def test_a_job_that_is_gone_or_closing_ends_its_streams_and_the_hub_forgets_them():
    async def story() -> None:
        ours = hub()
        one = ours.join(seen(RUNNING))
        ours.spread({TOPIC: None, (uuid4(), OURS): None})
        assert one.is_over
        ours.leave(one)
        assert not ours.jobs

        other = ours.join(seen(RUNNING))
        ours.close()
        assert other.is_over
        assert ours.join(seen(RUNNING)).is_over

    run(story())


def test_who_watches_in_another_dialect_is_told_in_it_and_of_the_same_text():
    async def story() -> None:
        texts = {JOB: "hello"}

        async def read(_: Any) -> dict[UUID, str]:
            ours.close()  # after this one read
            return texts

        ours = Hub(ThreadPoolExecutor(1), texts=read)
        one = ours.join(seen(QUEUED))
        theirs = Opening(JOB, Right(2, token_id=2), OPENAI, QUEUED.word, 1)
        other = ours.join(theirs)
        course = Course(((2, b"<in_progress>"),), (), "msg_1", "")

        ours.spread({TOPIC: RUNNING, (JOB, OPENAI): State(RUNNING.word, course, is_last=False)})
        assert (list(one.take()), list(other.take())) == ([b"<running>"], [b"<in_progress>"])
        ours.hint_at_text(JOB)
        await ours.read_texts()

        [told], [*_, delta] = one.take(), other.take()
        assert b'data: {"offset":0,"text":"hello"}' in told
        assert b'"sequence_number":9,' in delta
        assert ours.jobs == {JOB}
        ours.leave(one)
        assert ours.jobs == {JOB}
        ours.leave(other)
        assert not ours.jobs

    run(story())


def test_a_quiet_stream_is_kept_alive_by_comments(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(application, "KEEP_ALIVE_S", 0.01)

    async def story() -> None:
        ours = hub()
        stream = ours.join(seen(RUNNING))
        sent: list[bytes] = []

        async def send(message: Any) -> None:
            sent.append(message["body"])
            if len(sent) == 3:
                ours.spread({TOPIC: SUCCEEDED})

        await application.write(stream, send)

        assert sent == [b": still here\n\n"] * 3 + [b"<succeeded>"]

    run(story())


def test_a_reader_that_takes_nothing_is_left(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(application, "SLOWEST_READ_S", 0.01)

    async def story() -> None:
        ours = hub()
        stream = ours.join(seen(QUEUED))
        ours.spread({TOPIC: RUNNING})

        async def send(_: Any) -> None:
            await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            await application.write(stream, send)

    run(story())


def test_a_mark_survives_its_way_there_and_back():
    for mark in (Mark(), Mark("12-running"), Mark("12-running", 345)):
        assert marks.read(str(mark)) == mark
