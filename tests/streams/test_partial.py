"""What a worker tells of a text while it grows, and when it tells nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.conf import settings as django_settings

from reports import hints, partial, runner
from reports.provider import Growing
from tests.support.provider import Answer
from tests.support.rows import job_in, row
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Generator
    from uuid import UUID

    import redis
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.provider import Provider

EVENTS = {"Content-Type": "text/event-stream"}
WORDS = b'data: {"text": "one "}\n\ndata: {"text": "two"}\n\ndata: {"finish_reason": "stop"}\n\n'


@pytest.fixture
def job_id() -> UUID:
    """A job that runs."""
    return uuid4()


@pytest.fixture
def heard(broker: redis.Redis, job_id: UUID) -> Generator[list[str]]:
    """What somebody who watches that job hears."""
    words: list[str] = []
    with broker.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(hints.channel(job_id))
        until(lambda: broker.pubsub_numsub(hints.channel(job_id))[0][1])
        is_over = threading.Event()

        def listen() -> None:
            while not is_over.is_set():
                message: Any = listener.get_message(timeout=0.1)
                if message:
                    words.append(message["data"].decode())

        thread = threading.Thread(target=listen)
        thread.start()
        yield words
        is_over.set()
        thread.join()


def test_a_text_that_is_watched_lies_on_the_broker_for_the_rest_of_its_lease(
    broker: redis.Redis, job_id: UUID, heard: list[str]
):
    growing, key = Growing(), hints.text_key(job_id)
    with partial.following(job_id, growing, ends_at=time.monotonic() + 30):
        growing.say("one ")
        until(lambda: broker.get(key), lambda text: text == b"one ")
        growing.say("zwö")
        until(lambda: broker.get(key), lambda text: text == "one zwö".encode())
        assert 25 < broker.ttl(key) <= 30

    until(lambda: not broker.exists(key))
    assert set(heard) == {hints.GREW}
    assert len(heard) <= 4


def test_a_text_that_nobody_watches_is_not_passed_on(broker: redis.Redis, job_id: UUID):
    growing = Growing()
    with partial.following(job_id, growing, ends_at=time.monotonic() + 30):
        growing.say("one ")
        looked = partial._scribe._followed[-1]
        until(lambda: looked.looks >= 3)

        assert not broker.exists(hints.text_key(job_id))


def test_a_text_that_ends_while_its_first_part_is_on_its_way_leaves_nothing_either(job_id: UUID):
    scribe = partial.Scribe()
    scribe._thread = threading.current_thread()  # it looks at nothing by itself

    with scribe.following(job_id, Growing(), ends_at=time.monotonic() + 30):
        scribe._followed[0].is_watched = True

    assert scribe._ended == [job_id]


@pytest.mark.parametrize(("text", "left_s"), [("x" * 70_000, 30), ("one", -1)])
def test_a_long_text_and_one_whose_lease_is_over_are_not_passed_on(
    job_id: UUID, text: str, left_s: float
):
    growing = Growing()
    growing.say(text)

    followed = partial.Following(job_id, growing, time.monotonic() + left_s, is_watched=True)

    assert not followed.is_due()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_on", [True, False])
def test_streaming_can_be_switched_off(
    ada: Api, provider: Provider, settings: Settings, broker: redis.Redis, *, is_on: bool
):
    settings.INFERENCE_STREAM = is_on
    runner.config.cache_clear()
    provider.script(Answer(WORDS, headers=EVENTS))
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)

    [call] = provider.calls
    assert ("text/event-stream" in call.headers["accept"]) is is_on
    assert call.json == {"prompt": job.prompt}
    assert row(job)["result_text"] == "one two"
    assert django_settings.INFERENCE_STREAM is is_on


@pytest.mark.django_db(transaction=True)
def test_what_ends_a_job_deletes_its_text_whoever_wrote_it(ada: Api, broker: redis.Redis):
    job = job_in("running", user=ada.user)
    broker.set(hints.text_key(job.pk), "half a", ex=60)

    ada.request("POST", f"/reports/{job.pk}/cancel")

    until(lambda: not broker.exists(hints.text_key(job.pk)))
