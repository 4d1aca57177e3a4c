"""A worker dies, freezes or loses its job in the middle of a call: one call, one ending."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from reports import invariants, sweep
from reports.models import ReportJob
from tests.support.provider import Answer
from tests.support.rows import ESTIMATE, budget, row
from tests.support.waiting import until
from tests.system.parts import SOON_S, all_end, called, endings, ids, queued

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
CANCELLED_CALL_S = 2.0
MOST_CONNECTIONS = 10


def connections() -> int:
    """How many connections the test's database has."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_a_worker_killed_in_a_call_loses_its_job_once_its_lease_is_over(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.hold()
    worker = crew.worker()
    jobs = queued(ada)
    stand_in.wait_for_calls(1, limit_s=SOON_S)
    worker.kill()
    assert endings(jobs) == ["running"]

    crew.worker()

    all_end(jobs, "worker_lost")
    job = ReportJob.objects.get()
    assert job.http_status == 500
    assert job.finished_at is not None
    assert job.lease_expires_at is not None
    assert job.finished_at >= job.lease_expires_at
    assert called(stand_in) == ids(jobs)
    assert budget(ada.user)["spent_tokens"] == 0
    assert budget(ada.user)["active_jobs"] == 0


def test_a_worker_that_wakes_after_its_lease_changes_nothing(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.hold()
    worker = crew.worker()
    jobs = queued(ada)
    stand_in.wait_for_calls(1, limit_s=SOON_S)
    worker.freeze()
    until(sweep.sweep, lambda swept: swept.lost == 1, within_s=SOON_S)
    before = row(jobs[0]), budget(ada.user)

    stand_in.release()
    worker.thaw()

    until(lambda: "its late outcome was dropped" in worker.said(), within_s=SOON_S)
    assert (row(jobs[0]), budget(ada.user)) == before
    assert called(stand_in) == ids(jobs)
    more = queued(ada)
    all_end(more, "succeeded")
    assert list(invariants.check()) == []


def test_a_cancelled_call_has_its_socket_closed_and_keeps_its_reservation(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.script(Answer(hang=True))
    crew.worker(INFERENCE_TIMEOUT_S="60")
    jobs = queued(ada)
    stand_in.wait_for_calls(1, limit_s=SOON_S)

    answer = ada.request("POST", f"/reports/{jobs[0].pk}/cancel")
    began = time.monotonic()
    until(lambda: stand_in.open_connections, lambda seen: seen == 0, within_s=SOON_S)
    took_s = time.monotonic() - began

    assert answer.status_code == 200
    assert took_s < CANCELLED_CALL_S
    job = row(jobs[0])
    assert (job["error_code"], job["http_status"]) == ("cancelled", 499)
    assert budget(ada.user)["spent_tokens"] == ESTIMATE
    assert budget(ada.user)["active_jobs"] == 0


def test_fifty_calls_hold_no_more_connections_than_one(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.hold()
    before = connections()
    crew.worker(WORKER_CONCURRENCY="50", INFERENCE_TIMEOUT_S="60")
    jobs = queued(ada, 50)
    stand_in.wait_for_calls(50, limit_s=60)

    held = connections() - before
    stand_in.release()

    assert held <= MOST_CONNECTIONS
    all_end(jobs, "succeeded")
    assert connections() - before <= MOST_CONNECTIONS
    assert ReportJob.objects.running().count() == 0
