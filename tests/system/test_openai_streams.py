"""The unmodified openai SDK streams responses, and goes on behind any event of them."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import sdk
from tests.support.spoken import TEXT, half_spoken, spoken
from tests.system.parts import called
from tools import valkey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openai import OpenAI

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]
ENDS = [
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.completed",
]


@pytest.fixture(scope="module")
def address(shared: Processes) -> str:
    """Of the web of a site that passes streams on to its events process."""
    port = str(valkey.free_port())
    shared.events(EVENTS_PORT=port)
    shared.worker(INFERENCE_TIMEOUT_S="20")
    return shared.web(EVENTS_PORT=port)


@pytest.fixture
def client(address: str, ada: Api) -> OpenAI:
    """Ada's SDK."""
    return sdk.over_http(address, ada)


def asked(client: OpenAI) -> str:
    """The id of a new response."""
    made = client.responses.create(model="default", input="why?", background=True)
    return made.id


def cut_off_after_each(
    client: OpenAI, response_id: str, *, until_type: str, behind: Sequence[Any] = ()
) -> list[Any]:
    """The events of a client that loses its connection after each and goes on behind it."""
    seen = list(behind)
    while not seen or seen[-1].type != until_type:
        after = {"starting_after": seen[-1].sequence_number} if seen else {}
        with client.responses.retrieve(response_id, stream=True, **after) as stream:
            seen.append(next(iter(stream)))
    return seen


def put_together(events: list[Any]) -> str:
    """The text in the deltas."""
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def numbers(events: list[Any]) -> list[int]:
    """Of these events."""
    return [event.sequence_number for event in events]


def test_a_client_that_is_cut_off_after_every_event_has_the_whole_text(
    client: OpenAI, stand_in: Provider
):
    stand_in.script(spoken(pause_s=0.1))
    response_id = asked(client)

    seen = cut_off_after_each(client, response_id, until_type="response.completed")

    assert put_together(seen) == TEXT
    assert numbers(seen) == sorted(set(numbers(seen)))
    kinds = [event.type for event in seen]
    assert kinds.count("response.output_text.delta") >= 4
    assert kinds[-4:] == ENDS
    assert seen[-1].response.output_text == TEXT
    # Whoever comes now finds the same course, and behind each of its events the rest of it.
    whole = list(client.responses.retrieve(response_id, stream=True))
    assert put_together(whole) == TEXT
    assert whole[-4:] == seen[-4:]
    for event in seen:
        after = event.sequence_number
        rest = list(client.responses.retrieve(response_id, stream=True, starting_after=after))
        assert all(number > after for number in numbers(rest))
        assert put_together(rest) == TEXT[max(0, after - 4) :]
    assert len(called(stand_in)) == 1


def test_a_client_that_stays_sees_the_text_grow_and_the_stream_end(
    client: OpenAI, stand_in: Provider
):
    stand_in.script(spoken(pause_s=0.1))
    response_id = asked(client)

    with client.responses.stream(response_id=response_id) as stream:
        grown = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()

    assert len(grown) >= 3
    assert all(TEXT.startswith(text) for text in grown)
    assert grown[-1] == final.output_text == TEXT


def test_a_provider_that_does_not_stream_is_told_in_one_part(client: OpenAI, stand_in: Provider):
    events = list(client.responses.retrieve(asked(client), stream=True))

    assert put_together(events) == "hello"
    assert [event.type for event in events].count("response.output_text.delta") == 1
    assert numbers(events)[-5:] == [9, 10, 11, 12, 13]


def test_whoever_has_a_part_of_a_text_learns_that_it_was_cancelled(
    client: OpenAI, stand_in: Provider
):
    goes_on = Event()
    stand_in.script(half_spoken(goes_on))
    response_id = asked(client)
    seen = cut_off_after_each(client, response_id, until_type="response.output_text.delta")

    with client.responses.retrieve(response_id, stream=True) as stream:
        assert next(iter(stream)).type == "response.created"
        client.responses.cancel(response_id)
        stayed = list(stream)
    after = seen[-1].sequence_number
    came_back = list(client.responses.retrieve(response_id, stream=True, starting_after=after))

    for events in (stayed, came_back):
        assert events[-1].type == "response.failed"
        assert events[-1].response.status == "cancelled"
        assert events[-1].sequence_number > after
    assert put_together(came_back) == ""
    goes_on.set()
    last = came_back[-1].sequence_number
    assert list(client.responses.retrieve(response_id, stream=True, starting_after=last)) == []


def test_a_text_that_breaks_off_fails_behind_its_parts(client: OpenAI, stand_in: Provider):
    goes_on = Event()
    stand_in.script(half_spoken(goes_on, end=False))
    response_id = asked(client)

    parts = cut_off_after_each(client, response_id, until_type="response.output_text.delta")
    goes_on.set()
    seen = cut_off_after_each(client, response_id, until_type="response.failed", behind=parts)

    assert TEXT.startswith(put_together(seen))
    assert put_together(seen)
    assert numbers(seen) == sorted(set(numbers(seen)))
    assert seen[-1].response.error.code == "server_error"
