"""The database goes away: under a POST, under a running call, between two requests."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import requests

from tests.support import processes as support
from tests.support.waiting import until
from tests.system.parts import SHORT, SOON_S, Caller, called, ready
from tools import postgres

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.processes import Process, Processes
    from tests.support.provider import Provider

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
# How long a client that comes back as Retry-After says may still meet a 503 afterwards.
BACK_WITHIN_S = 5.0
# Prometheus gives up after ten seconds.
LONGEST_SCRAPE_S = 5.0


@dataclass(frozen=True, slots=True)
class World:
    """One product on a database of its own."""

    database: postgres.Server
    processes: Processes
    worker: Process
    caller: Caller

    def ask(self, sql: str) -> Any:
        """The first column of the first row."""
        host = str(self.database.directory)
        with psycopg.connect(host=host, user="postgres", dbname="postgres") as connection:
            row = connection.execute(sql.encode()).fetchone()
        return row[0] if row else None


@pytest.fixture(scope="module")
def own_postgres() -> Generator[postgres.Server]:
    """A PostgreSQL that may be stopped."""
    # As root it runs under another account, which must be able to pass through.
    parent = "/tmp" if os.geteuid() == 0 else None  # noqa: S108  # mkdtemp makes the name safe
    directory = Path(tempfile.mkdtemp(prefix="reports-tests-", dir=parent))
    directory.chmod(0o711)
    try:
        with postgres.running(directory / "pg") as server:
            yield server
    finally:
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def world(
    own_postgres: postgres.Server,
    provider_for_all: Provider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[World]:
    """Web and worker on that database; calls may last 20 seconds."""
    variables = {"INFERENCE_TIMEOUT_S": "20", "INFERENCE_URL": provider_for_all.url}
    environment = support.environment(**{**SHORT, **variables}, DATABASE_URL=own_postgres.url)
    started = support.Processes(tmp_path_factory.mktemp("database"), environment)
    python = ["python", "manage.py"]
    migrated = started.run("migrate", [*python, "migrate", "--noinput"])
    assert migrated.child.wait(SOON_S) == 0, migrated.said()
    issued = started.run("token", [*python, "issue_token", "ada", "--create"])
    worker = started.start("worker")
    address = started.web()
    assert issued.child.wait(SOON_S) == 0, issued.said()
    started.wait(worker, lambda: " ready." in worker.said())
    yield World(own_postgres, started, worker, Caller(address, issued.said().strip()))
    started.close()


def test_an_answer_that_comes_while_the_database_is_away_is_written_when_it_is_back(
    world: World, stand_in: Provider
):
    stand_in.hold()
    job_id = world.caller.accepted(1)[0]
    stand_in.wait_for_calls(1, limit_s=SOON_S)

    world.database.stop()
    stand_in.release()
    until(lambda: f"job {job_id}: the database is away" in world.worker.said(), within_s=SOON_S)
    world.database.start()

    assert until(lambda: ending(world, job_id), within_s=20) == "succeeded"
    assert called(stand_in) == [job_id]


def test_without_its_database_a_post_is_refused_for_a_moment_and_leaves_nothing(
    world: World, stand_in: Provider
):
    jobs = world.ask("SELECT count(*) FROM reports_reportjob")
    world.database.stop()

    answers = [world.caller.post(key="while away") for _ in range(3)]
    status, parts = ready(world.caller.address)
    health = requests.get(f"{world.caller.address}/healthz", timeout=SOON_S)
    metrics = requests.get(f"{world.caller.address}/metrics", timeout=SOON_S)
    world.database.start()
    back_at = time.monotonic()
    answer = until(
        lambda: world.caller.post(key="once back"),
        lambda seen: seen.status_code == 202,
        within_s=SOON_S,
    )
    took_s = time.monotonic() - back_at

    assert [refused.status_code for refused in answers] == [503] * 3
    assert {refused.json()["error"] for refused in answers} == {"unavailable"}
    assert all(int(refused.headers["Retry-After"]) > 0 for refused in answers)
    assert (status, parts["database"], parts["broker"]) == (503, "cannot be reached", "ok")
    assert health.status_code == metrics.status_code == 200
    assert 'reports_up{part="database"} 0.0' in metrics.text
    assert 'reports_up{part="worker"} 1.0' in metrics.text
    assert metrics.elapsed.total_seconds() < LONGEST_SCRAPE_S
    assert took_s < BACK_WITHIN_S
    assert until(lambda: ending(world, answer.json()["job_id"]), within_s=SOON_S) == "succeeded"
    assert world.ask("SELECT count(*) FROM reports_reportjob") == jobs + 1


def test_connections_that_were_cut_cost_a_few_answers_at_most(world: World, stand_in: Provider):
    world.caller.accepted(1)
    world.ask(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )

    statuses = [world.caller.post().status_code for _ in range(20)]

    assert set(statuses) <= {202, 503}
    assert statuses[10:] == [202] * 10
    until(
        lambda: world.ask("SELECT count(*) FROM reports_reportjob WHERE finished_at IS NULL"),
        lambda seen: seen == 0,
        within_s=SOON_S,
    )


def ending(world: World, job_id: str) -> str:
    """How this job ended; empty until then."""
    answer = world.caller.ask("GET", f"/reports/{job_id}")
    job = answer.json() if answer.status_code == 200 else {"finished_at": None}
    return str(job["status"]) if job["finished_at"] else ""
