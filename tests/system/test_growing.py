"""A text that is seen while it is written: through the broker, in coarse steps, and never twice."""

from __future__ import annotations

import time
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from reports import hints
from tests.support.spoken import TEXT, half_spoken, spoken
from tests.support.sse import Listener
from tests.support.waiting import until
from tests.system.parts import SHORT, Caller, called

if TYPE_CHECKING:
    import redis

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider
    from tests.support.sse import Event as Told

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]
ROOMY = {"INFERENCE_TIMEOUT_S": "20"}


@pytest.fixture(scope="module")
def addresses(shared: Processes) -> tuple[str, str]:
    """Of the web and the events of a site with one worker."""
    shared.worker(**ROOMY)
    return shared.web(), shared.events()[1]


def listener(address: str, api: Api, job_id: str) -> Listener:
    """Somebody who watches a job."""
    headers = {"Authorization": f"Bearer {api.token}"}
    return Listener(f"{address}/reports/{job_id}/events", headers)


def put_together(events: list[Told]) -> str:
    """The text that a client has, which keeps what is new behind what it has."""
    text = ""
    for event in events:
        if event.kind == "text":
            assert event.data["offset"] == len(text)
            text += event.data["text"]
    return text


def texts(broker: redis.Redis) -> dict[str, int]:
    """The texts that lie on the broker, and for how many seconds yet."""
    keys: Any = broker.keys(f"{hints.TEXT}*")
    return {key.decode(): broker.ttl(key) for key in keys}


def test_a_text_grows_in_coarse_steps_and_whoever_comes_back_goes_on_where_they_were(
    addresses: tuple[str, str], stand_in: Provider, ada: Api, broker: redis.Redis
):
    stand_in.script(spoken(pause_s=0.08))
    caller, address = Caller(addresses[0], ada.token), addresses[1]

    began = time.monotonic()
    [job_id] = caller.accepted(1)
    steady, restless = listener(address, ada, job_id).open(), listener(address, ada, job_id).open()
    marks = set()
    while (event := restless.next()).data.get("status") != "succeeded":
        assert event.mark not in marks
        marks.add(event.mark)
        restless.leave()  # and comes back, after every event
        restless.open()
    steady.rest()
    took_s = time.monotonic() - began

    for seen in (steady, restless):
        assert len({event.mark for event in seen.events}) == len(seen.events)
        assert TEXT.startswith(put_together(seen.events))
        assert 3 <= sum(event.kind == "text" for event in seen.events) <= 4 * took_s
        assert seen.events[-1].data == caller.job(job_id)
    assert seen.events[-1].data["text"] == TEXT
    assert called(stand_in) == [job_id]
    until(lambda: texts(broker), lambda found: found == {})


def test_a_late_comer_is_told_all_there_is_and_nobody_else_hears_of_it(
    addresses: tuple[str, str], stand_in: Provider, ada: Api, broker: redis.Redis
):
    is_seen = Event()
    stand_in.script(half_spoken(is_seen))
    caller, address = Caller(addresses[0], ada.token), addresses[1]
    [unwatched, job_id] = caller.accepted(2)

    early = listener(address, ada, job_id).open()
    while len(put_together(early.events)) < 40:
        early.next()
    late = listener(address, ada, job_id).open()
    first = [late.next(), late.next()]

    assert [event.kind for event in first] == ["status", "text"]
    assert first[1].data["offset"] == 0
    assert len(first[1].data["text"]) >= 40
    # Where nobody watches, nothing is kept; where somebody does, no longer than the lease lasts.
    found = texts(broker)
    assert hints.text_key(unwatched) not in found  # type: ignore[arg-type]
    ttl = found[hints.text_key(job_id)]  # type: ignore[arg-type]
    assert 0 < ttl <= float(ROOMY["INFERENCE_TIMEOUT_S"]) + float(SHORT["LEASE_GRACE_S"])
    is_seen.set()
    assert caller.ended(unwatched)["text"] == TEXT


def test_a_cut_stream_fails_and_a_cancelled_one_ends_with_its_text_gone(
    addresses: tuple[str, str], stand_in: Provider, ada: Api, broker: redis.Redis
):
    is_cancelled = Event()
    stand_in.script(spoken(pause_s=0, end=False), half_spoken(is_cancelled))
    caller, address = Caller(addresses[0], ada.token), addresses[1]

    [cut_id] = caller.accepted(1)
    cut = caller.ended(cut_id)
    [job_id] = caller.accepted(1)
    seen = listener(address, ada, job_id).open()
    while seen.next().kind != "text":
        continue
    caller.ask("POST", f"/reports/{job_id}/cancel")
    seen.rest()
    is_cancelled.set()

    assert cut["error_code"] == "provider_invalid_response"
    assert seen.events[-1].data["error_code"] == "cancelled"
    until(lambda: texts(broker), lambda found: found == {})
    assert called(stand_in) == [cut_id, job_id]
