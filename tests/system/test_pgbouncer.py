"""Behind Debian's PgBouncer, which gives each transaction another of a few connections."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import requests
from django.contrib.auth import get_user_model
from django.db import connection

from tests.admin.conftest import signed_in
from tests.system.parts import SOON_S, Caller, all_end, called, endings, lost, queued
from tools import valkey

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(180),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="PgBouncer is PostgreSQL's"),
    pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="apt-get install pgbouncer"),
]
CONNECTIONS = 4
JOBS = 50
NAME = "through_pgbouncer"
CONFIGURATION = """
[databases]
* = {server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 200
{user}
"""


@pytest.fixture
def through(crew: Processes, tmp_path: Path) -> Processes:
    """Processes that reach the test's database through PgBouncer only."""
    known = connection.settings_dict
    options = known["OPTIONS"]
    server = {
        "host": options.get("host") or known["HOST"],
        "port": known["PORT"] or options.get("port", 5432),
        "user": known["USER"],
        "password": known["PASSWORD"],
    }
    port = valkey.free_port()
    configuration = tmp_path / "pgbouncer.ini"
    configuration.write_text(
        CONFIGURATION.format(
            server=" ".join(f"{name}={value}" for name, value in server.items() if value),
            port=port,
            connections=CONNECTIONS,
            user="user = nobody" if os.geteuid() == 0 else "",  # it refuses to run as root
        )
    )
    pooler = crew.run("pgbouncer", ["pgbouncer", str(configuration)])
    crew.wait(pooler, lambda: "process up" in pooler.said())
    database = quote(str(known["NAME"]))
    crew.environment["DATABASE_URL"] = (
        f"postgres://{known['USER']}@127.0.0.1:{port}/{database}"
        f"?prepare_threshold=none&server_side_binding=1&application_name={NAME}"
    )
    return crew


def connections() -> int:
    """How many connections the database sees of all processes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [NAME])
        return int(cursor.fetchone()[0])


def test_a_product_works_through_four_connections_that_it_shares(
    through: Processes, stand_in: Provider, ada: Api
):
    missed, forgotten = queued(ada, 3, is_published=False), lost(ada, 2)
    address = through.web(MAX_ACTIVE_JOBS_PER_USER="100", WEB_CONCURRENCY="2")
    for _ in range(2):
        through.worker(WORKER_CONCURRENCY="20")
    caller = Caller(address, ada.token)

    job_ids = caller.accepted(JOBS)
    for job_id in job_ids:
        assert caller.ended(job_id)["status"] == "succeeded"
    all_end(missed, "succeeded")
    all_end(forgotten, "worker_lost")

    assert set(job_ids) <= set(called(stand_in))
    assert 1 < connections() <= CONNECTIONS
    assert caller.ask("GET", "/reports").status_code == 200
    assert caller.ask("GET", "/metrics").status_code == 200


def test_operators_and_commands_work_through_it_too(through: Processes, ada: Api):
    jobs = queued(ada, 5, is_published=False)
    address = through.web()
    through.worker()
    all_end(jobs, "succeeded")
    operator = signed_in(get_user_model().objects.create_superuser("operator"))
    cookies = {name: morsel.value for name, morsel in operator.cookies.items()}

    # Usage is read by cursors, which must not outlive their transaction.
    for path in ("/admin/", "/admin/reports/reportjob/", "/admin/usage/", "/"):
        page = requests.get(f"{address}{path}", cookies=cookies, timeout=SOON_S)
        assert (path, page.status_code) == (path, 200)
    for words in (["check_invariants"], ["export_user", "ada"], ["migrate", "--noinput"]):
        done = through.run(words[0], ["python", "manage.py", *words])
        assert done.child.wait(2 * SOON_S) == 0, done.said()
    assert endings(jobs) == ["succeeded"] * 5
    for process in through.started:
        assert "prepared statement" not in process.said()
        assert "Traceback" not in process.said()
