"""The broker breaks under a running web and worker: every POST is answered, every job ends."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
import redis
import requests
from celery import Celery

from reports.models import ReportJob
from tests.support.waiting import until
from tests.system.parts import SOON_S, Caller, called, not_ready, ready

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.clients import Api
    from tests.support.processes import Process, Processes
    from tests.support.provider import Provider
    from tools import valkey

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
# CONTRACT 5.4: no request waits longer for a broker.
BOUND_S = 1.0
PAUSE_MS = 5000


@pytest.fixture(scope="module")
def worker_of_module(shared: Processes, valkey_of_module: valkey.Valkey) -> Process:
    """The one worker on the module's broker."""
    return shared.worker(REDIS_URL=valkey_of_module.url)


@pytest.fixture(scope="module")
def address(shared: Processes, valkey_of_module: valkey.Valkey, worker_of_module: Process) -> str:
    """The web process on the module's broker."""
    return shared.web(REDIS_URL=valkey_of_module.url)


@pytest.fixture
def caller(
    transactional_db: None, ada: Api, address: str, own_broker: valkey.Valkey, stand_in: Provider
) -> Caller:
    """Ada, on the web process whose broker breaks."""
    return Caller(address, ada.token)


@pytest.fixture
def client(own_broker: valkey.Valkey) -> Generator[redis.Redis]:
    """An operator's connection to the broker."""
    with redis.Redis.from_url(own_broker.url) as operator:
        yield operator


def post_in_time(caller: Caller, how_many: int) -> list[str]:
    """So many jobs, none of whose answers waited for the broker."""
    accepted = []
    for _ in range(how_many):
        began = time.monotonic()
        accepted += caller.accepted(1)
        assert time.monotonic() - began < BOUND_S
    return accepted


def assert_each_ran_once(caller: Caller, job_ids: list[str], stand_in: Provider) -> None:
    """All succeed, and the provider was asked once for each."""
    assert [caller.ended(job_id)["status"] for job_id in job_ids] == ["succeeded"] * len(job_ids)
    assert called(stand_in) == sorted(job_ids)


def test_what_is_posted_while_the_broker_is_down_runs_once_it_is_back(
    caller: Caller, own_broker: valkey.Valkey, stand_in: Provider
):
    before = caller.accepted(1)
    own_broker.stop()

    accepted = post_in_time(caller, 5)
    parts = not_ready(caller.address)
    metrics = until(
        lambda: requests.get(f"{caller.address}/metrics", timeout=SOON_S),
        lambda seen: 'reports_up{part="broker"} 0.0' in seen.text,
        within_s=SOON_S,
    )
    own_broker.start()

    assert parts["broker"] == "cannot be reached"
    assert parts["database"] == "ok"
    assert 'reports_jobs{status="queued"}' in metrics.text
    assert_each_ran_once(caller, before + accepted, stand_in)


@pytest.mark.parametrize("how", ["frozen", "CLIENT PAUSE"])
def test_a_broker_that_does_not_answer_delays_no_post(
    caller: Caller, own_broker: valkey.Valkey, client: redis.Redis, stand_in: Provider, how: str
):
    if how == "frozen":
        own_broker.child.send_signal(signal.SIGSTOP)
    else:
        client.client_pause(PAUSE_MS)

    accepted = post_in_time(caller, 5)
    parts = not_ready(caller.address)
    if how == "frozen":
        own_broker.child.send_signal(signal.SIGCONT)

    assert parts["broker"] == "cannot be reached"
    assert_each_ran_once(caller, accepted, stand_in)


def test_a_full_broker_delays_no_post_and_its_jobs_run_once_it_has_room(
    caller: Caller, client: redis.Redis, stand_in: Provider
):
    client.config_set("maxmemory", 1)

    accepted = post_in_time(caller, 5)
    client.config_set("maxmemory", 0)

    assert_each_ran_once(caller, accepted, stand_in)


def test_a_worker_that_takes_a_message_from_a_full_broker_loses_nothing(
    caller: Caller, client: redis.Redis, stand_in: Provider, worker_of_module: Process
):
    caller.ended(caller.accepted(1)[0])
    worker_of_module.freeze()
    # The frozen worker's blocking read gets the first one, the others lie on the list.
    accepted = caller.accepted(3)
    until(lambda: client.llen("jobs"), lambda length: length >= 2, within_s=SOON_S)
    client.config_set("maxmemory", 1)
    worker_of_module.thaw()
    until(lambda: "OutOfMemoryError" in worker_of_module.said(), within_s=SOON_S)
    client.config_set("maxmemory", 0)

    jobs = [caller.ended(job_id)["status"] for job_id in accepted]

    assert jobs == ["succeeded"] * 3
    assert len(set(called(stand_in))) == len(called(stand_in)) == 4


def test_a_broker_flushed_under_load_loses_nothing(
    caller: Caller, client: redis.Redis, stand_in: Provider
):
    stand_in.hold()
    accepted = caller.accepted(12)
    stand_in.wait_for_calls(4, limit_s=SOON_S)
    client.flushall()
    stand_in.release()

    assert_each_ran_once(caller, accepted, stand_in)


def test_after_three_restarts_in_five_seconds_a_job_still_runs(
    caller: Caller, own_broker: valkey.Valkey, stand_in: Provider
):
    caller.ended(caller.accepted(1)[0])
    began = time.monotonic()
    for _ in range(3):
        own_broker.stop(by=signal.SIGKILL)
        own_broker.start()
    assert time.monotonic() - began < 5

    accepted = caller.accepted(1)

    assert caller.ended(accepted[0], within_s=60)["status"] == "succeeded"


def test_a_worker_drops_a_message_of_tomorrows_name_and_the_job_runs_all_the_same(
    caller: Caller, own_broker: valkey.Valkey, client: redis.Redis, worker_of_module: Process
):
    client.config_set("maxmemory", 1)  # so that the job's own message does not leave
    job_id = caller.accepted(1)[0]
    assert ReportJob.objects.get(pk=job_id).status == "queued"
    client.config_set("maxmemory", 0)

    Celery(broker=own_broker.url).send_task("reports.run_v2", args=[job_id], queue="jobs")

    until(lambda: "reports.run_v2" in worker_of_module.said(), within_s=SOON_S)
    assert caller.ended(job_id)["status"] == "succeeded"


def test_readiness_is_whole_again_once_everything_runs(caller: Caller):
    status, parts = until(lambda: ready(caller.address), lambda seen: seen[0] == 200, within_s=60)

    assert (status, parts) == (200, {"database": "ok", "broker": "ok", "worker": "ok"})
