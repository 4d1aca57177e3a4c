"""Processes that never reached their broker: it is down, or its address is wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import redis

from tests.support.waiting import until
from tests.system.parts import SOON_S, Caller, called, not_ready

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider
    from tools import valkey

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
BOUND_S = 1.0
SECRET = "a-password-that-nobody-prints"


def test_the_first_post_of_a_process_waits_for_no_broker_either(
    crew: Processes, own_broker: valkey.Valkey, stand_in: Provider, ada: Api
):
    own_broker.stop()
    caller = Caller(crew.web(REDIS_URL=own_broker.url), ada.token)

    began = time.monotonic()
    accepted = caller.accepted(1)
    took_s = time.monotonic() - began
    own_broker.start()
    crew.worker(REDIS_URL=own_broker.url)

    assert took_s < BOUND_S
    assert caller.ended(accepted[0])["status"] == "succeeded"
    assert called(stand_in) == accepted


@pytest.mark.parametrize("wrong", ["password", "database"])
def test_a_wrong_address_of_the_broker_is_bounded_and_named_and_its_password_never_shown(
    crew: Processes, own_broker: valkey.Valkey, ada: Api, logs: Path, wrong: str
):
    number = 99 if wrong == "database" else 0
    url = f"redis://:{SECRET}@127.0.0.1:{own_broker.port}/{number}"
    right = SECRET if wrong == "database" else "another-one"
    with redis.Redis.from_url(own_broker.url) as operator:
        operator.config_set("requirepass", right)
        worker = crew.start("worker", REDIS_URL=url)
        beat = crew.start("beat", REDIS_URL=url)
        caller = Caller(crew.web(REDIS_URL=url), ada.token)

        began = time.monotonic()
        answer = caller.post()
        took_s = time.monotonic() - began
        parts = not_ready(caller.address)
        for process in (worker, beat):
            until(lambda process=process: "rror" in process.said(), within_s=SOON_S)  # type: ignore[misc]
        operator.execute_command("AUTH", right)
        operator.config_set("requirepass", "")

    assert (answer.status_code, took_s < BOUND_S) == (202, True)
    assert parts["broker"] == "cannot be reached"
    said = [log.read_text() for log in logs.glob("*.log")]
    assert len(said) == 3
    assert not any(SECRET in text for text in [*said, answer.text])
