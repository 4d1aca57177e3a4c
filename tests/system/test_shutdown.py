"""SIGTERM: no new work, what can finish does, what cannot is failed, and the process is gone."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import pytest
import requests
from django.db import transaction
from django.utils import timezone

from budgets.models import InferenceBudget
from reports import invariants
from reports.models import ReportJob
from tests.support.provider import Answer
from tests.support.rows import give_budget
from tests.support.threads import until_blocked
from tests.support.waiting import until
from tests.system.parts import SOON_S, Caller, all_end, called, endings, ids, queued

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.processes import Process, Processes
    from tests.support.provider import Provider
    from tools import valkey

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
GRACE_S = 8
# Every row is written when the grace is over; taking the interpreter down takes its time after it,
# seconds on a loaded machine.
GONE_S = GRACE_S + 5.0
SLOWLY = Answer(drip=(4, 0.5))  # about two seconds for its 17 bytes


def end(process: Process) -> float:
    """SIGTERM; returns the seconds until the process was gone, by its own will."""
    began = time.monotonic()
    status = process.terminate(within_s=60)
    assert status == 0, process.said()
    return time.monotonic() - began


def test_a_worker_finishes_what_it_can_fails_what_it_cannot_and_leaves_the_rest(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.script(SLOWLY, Answer(hang=True), Answer())
    variables = {"INFERENCE_TIMEOUT_S": "60", "WORKER_CONCURRENCY": "2"}
    worker = crew.worker(**variables, SHUTDOWN_GRACE_S=str(GRACE_S))
    jobs = queued(ada, 4)
    calls = stand_in.wait_for_calls(2, limit_s=SOON_S)

    asked_at = timezone.now()
    took_s = end(worker)

    assert took_s < GONE_S
    ended_at = ReportJob.objects.get(pk=calls[1].job_id).finished_at
    assert ended_at is not None
    assert (ended_at - asked_at).total_seconds() < GRACE_S + 2
    by_id = {str(job.pk): ending for job, ending in zip(jobs, endings(jobs), strict=True)}
    assert by_id.pop(calls[0].job_id) == "succeeded"
    assert by_id.pop(calls[1].job_id) == "worker_lost"
    assert list(by_id.values()) == ["queued"] * 2
    crew.worker(**variables)
    rest = [job for job in jobs if str(job.pk) in by_id]
    all_end(rest, "succeeded")
    assert called(stand_in) == ids(jobs)
    assert list(invariants.check()) == []


def test_a_worker_with_nothing_to_do_is_gone_at_once(crew: Processes):
    assert end(crew.worker(SHUTDOWN_GRACE_S=str(GRACE_S))) < GONE_S / 2


def test_a_worker_without_its_broker_ends_in_time_too(crew: Processes, own_broker: valkey.Valkey):
    worker = crew.worker(REDIS_URL=own_broker.url, SHUTDOWN_GRACE_S=str(GRACE_S))
    own_broker.stop()
    crew.wait(worker, lambda: "Cannot connect" in worker.said())

    assert end(worker) < GONE_S


def test_a_beat_ends_in_time(crew: Processes):
    assert end(crew.beat()) < GONE_S


def test_a_web_process_answers_what_it_has_taken(crew: Processes, ada: Api):
    caller = Caller(crew.web(), ada.token)
    web = crew.started[-1]
    give_budget(ada.user)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            InferenceBudget.objects.select_for_update().get(user=ada.user)
            answer = pool.submit(caller.post)
            until_blocked(1)
            began = time.monotonic()
            web.child.terminate()
        assert answer.result().status_code == 202

    assert web.child.wait(SOON_S) in {0, -15}
    assert time.monotonic() - began < GONE_S


def test_a_reload_replaces_the_processes_and_drops_no_request(crew: Processes):
    address = crew.web()
    web = psutil.Process(crew.started[-1].pid)
    before = {child.pid for child in web.children()}
    web.send_signal(signal.SIGHUP)

    statuses = set()

    def replaced() -> bool:
        statuses.add(requests.get(f"{address}/login/", timeout=SOON_S).status_code)
        now = {child.pid for child in web.children()}
        return bool(now) and not now & before

    until(replaced, within_s=60)

    assert statuses == {200}


def test_a_web_process_whose_server_was_killed_makes_room_for_the_next_one(crew: Processes):
    address = crew.web()
    port = address.rpartition(":")[2]
    os.kill(crew.started[-1].pid, signal.SIGKILL)

    until(lambda: not answers(address), within_s=GONE_S)
    process = crew.start("web", PORT=port)

    crew.wait(process, lambda: answers(address))


def answers(address: str) -> bool:
    """Whether somebody serves there."""
    try:
        return requests.get(f"{address}/healthz", timeout=SOON_S).ok
    except requests.RequestException:
        return False
