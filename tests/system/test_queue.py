"""Messages are hints: lost, doubled or late ones change when a job runs, and nothing else."""

from __future__ import annotations

import json
import sys
import time
from base64 import b64decode
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from reports import dispatch, invariants, sweep
from reports.models import ReportJob, Status
from tests.support.provider import Answer
from tests.support.rows import job_in
from tests.support.threads import together
from tests.support.waiting import until
from tests.system.parts import SOON_S, all_end, called, endings, ids, is_running, lost, queued

if TYPE_CHECKING:
    import redis
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
# A worker whose broker takes a message for lost while its job still runs, and that looks for such
# messages every second: by default it looks ten seconds after its start and then every hundred.
IMPATIENT_WORKER = """
from reports_project.celery import app
app.conf.broker_transport_options.update(
    visibility_timeout=1, unacked_restore_interval=1, unacked_restore_throttle=1
)
app.worker_main("worker --pool threads --concurrency 4 --queues jobs --loglevel INFO".split())
"""


def messages(broker: redis.Redis) -> Counter[str]:
    """How many messages each job has on its queue."""
    raw: Any = broker.lrange("jobs", 0, -1)
    bodies = [json.loads(b64decode(json.loads(message)["body"])) for message in raw]
    return Counter(args[0] for args, _, _ in bodies)


@pytest.mark.parametrize("how", ["DEL jobs", "FLUSHALL"])
def test_jobs_whose_queue_was_deleted_all_run_once(
    crew: Processes, broker: redis.Redis, stand_in: Provider, ada: Api, how: str
):
    jobs = queued(ada, 20)
    assert broker.llen("jobs") == 20
    broker.execute_command(*how.split())

    crew.worker()

    all_end(jobs, "succeeded")
    assert called(stand_in) == ids(jobs)


def test_ten_sweeps_at_once_move_each_row_once(
    transactional_db: None, broker: redis.Redis, ada: Api
):
    gone = lost(ada, 50)
    waiting = queued(ada, 50, is_published=False)

    connection.close()  # the eleventh of a pool of ten

    swept = together(lambda _: sweep.sweep(), range(10), threads=10)

    results = [result for result in swept if isinstance(result, sweep.Swept)]
    assert len(results) == 10, swept
    assert sum(result.lost for result in results) == 50
    assert sum(result.republished for result in results) == 50
    assert endings(gone) == ["worker_lost"] * 50
    assert messages(broker) == Counter(ids(waiting))
    assert list(invariants.check()) == []


def test_two_beats_and_ten_sweeps_run_each_lost_job_once(
    crew: Processes, broker: redis.Redis, stand_in: Provider, ada: Api
):
    gone = lost(ada, 50)
    waiting = queued(ada, 50, is_published=False)
    beats = [crew.start("beat"), crew.start("beat")]
    crew.worker()

    together(lambda _: sweep.sweep(), range(10), threads=10)

    all_end(waiting, "succeeded")
    all_end(gone, "worker_lost")
    assert called(stand_in) == ids(waiting)
    assert list(invariants.check()) == []
    assert [beat.child.poll() for beat in beats] == [None, None]


def test_the_sweep_does_not_wait_for_a_free_slot(crew: Processes, stand_in: Provider, ada: Api):
    stand_in.hold()
    crew.beat(SWEEP_INTERVAL_S="1")
    crew.worker(SWEEP_INTERVAL_S="1", WORKER_CONCURRENCY="2", INFERENCE_TIMEOUT_S="60")
    held = queued(ada, 3)
    stand_in.wait_for_calls(2, limit_s=SOON_S)

    gone = lost(ada)

    all_end(gone, "worker_lost", within_s=2 * 1 + 1)
    assert len(stand_in.calls) == 2
    stand_in.release()
    all_end(held, "succeeded")


def test_without_a_beat_a_worker_sweeps_by_itself(crew: Processes, stand_in: Provider, ada: Api):
    crew.worker()
    forgotten = queued(ada, is_published=False)
    gone = lost(ada)

    all_end(forgotten, "succeeded")
    all_end(gone, "worker_lost")
    assert called(stand_in) == ids(forgotten)


def test_short_jobs_do_not_wait_behind_a_long_one(crew: Processes, stand_in: Provider, ada: Api):
    stand_in.script(Answer(hang=True), Answer())
    first = crew.start("worker", WORKER_CONCURRENCY="1", INFERENCE_TIMEOUT_S="60")
    crew.worker(WORKER_CONCURRENCY="1", INFERENCE_TIMEOUT_S="60")
    crew.wait(first, lambda: " ready." in first.said())
    long = queued(ada)
    stand_in.wait_for_calls(1, limit_s=SOON_S)

    short = queued(ada, 6)

    all_end(short, "succeeded", within_s=5)
    assert is_running(long[0])


def test_a_message_delivered_again_while_its_job_runs_ends_quietly(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.hold()
    command = [sys.executable, "-c", IMPATIENT_WORKER]
    workers = [crew.run("worker", command, INFERENCE_TIMEOUT_S="60") for _ in range(2)]
    for worker in workers:
        crew.wait(worker, lambda worker=worker: " ready." in worker.said())  # type: ignore[misc]
    jobs = queued(ada)
    stand_in.wait_for_calls(1, limit_s=SOON_S)

    until(lambda: any("cannot be claimed now" in worker.said() for worker in workers), within_s=60)
    stand_in.release()

    all_end(jobs, "succeeded")
    assert called(stand_in) == ids(jobs)
    assert list(invariants.check()) == []


def test_a_backlog_is_not_published_again_and_again(
    transactional_db: None, broker: redis.Redis, ada: Api
):
    jobs = queued(ada, 200)

    for _ in range(60):  # half an hour without a worker, a sweep every 30 seconds
        ReportJob.objects.update(
            created_at=F("created_at") - timedelta(seconds=30),
            publish_again_at=F("publish_again_at") - timedelta(seconds=30),
        )
        sweep.sweep()

    assert ReportJob.objects.filter(status=Status.QUEUED).count() == len(jobs)
    assert 200 <= broker.llen("jobs") <= 400


def test_a_lost_message_among_a_backlog_is_published_once_a_younger_job_runs(
    transactional_db: None, broker: redis.Redis, ada: Api
):
    forgotten = queued(ada, is_published=False)
    for job in queued(ada, 3):  # copies make the queue look complete
        dispatch.publish(job.pk)
    assert sweep.sweep().republished == 0

    job_in("running", user=ada.user)
    ReportJob.objects.update(publish_again_at=Now())
    sweep.sweep()

    assert messages(broker)[str(forgotten[0].pk)] == 1


def test_a_lost_message_among_a_backlog_that_stands_still_is_published_in_the_end(
    transactional_db: None, broker: redis.Redis, ada: Api
):
    forgotten = queued(ada, is_published=False)
    for job in queued(ada, 3):
        dispatch.publish(job.pk)

    for _ in range(sweep.TRUSTED_PASSES + 1):
        ReportJob.objects.update(publish_again_at=Now())
        sweep.sweep()

    assert messages(broker)[str(forgotten[0].pk)] == 1


def test_a_pass_publishes_for_one_interval_at_most(
    transactional_db: None, broker: redis.Redis, ada: Api, settings: Settings
):
    settings.SWEEP_INTERVAL_S = 0.01
    queued(ada, 150, is_published=False)
    began = time.monotonic()

    first = sweep.sweep().republished
    took_s = time.monotonic() - began

    assert 0 < first < 150
    assert took_s < 5
    until(sweep.sweep, lambda swept: swept.republished == 0, within_s=SOON_S)
    assert broker.llen("jobs") == 150
