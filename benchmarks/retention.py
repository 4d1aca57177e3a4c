"""Retention of many old jobs while ten POSTs a second are timed.

    python -m benchmarks.retention [--rows 200000] [--rate 10] [--sqlite] [--delete]

Starts its own services (PostgreSQL with fsync on), web, worker and beat, and prints how long
POSTs took before and beside it. Exit status 1 if one took two seconds or was refused.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import requests
from django.db import connection

from reports.ids import lowest_at
from tools import children, postgres, valkey

if TYPE_CHECKING:
    import subprocess

    from reports.models import ReportJob

ROOT = Path(__file__).resolve().parent.parent
USERS = 50
TEXT = "x" * 800
AGE = timedelta(days=60)
BEFORE_S = 30.0
LONGEST_S = 3600.0
TOO_LONG_S = 2.0


@dataclass(slots=True)
class Times:
    """How POSTs were answered during one phase."""

    name: str
    took_s: list[float] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        cuts = statistics.quantiles(self.took_s, n=100)
        p50, p99, most = (1000 * value for value in (cuts[49], cuts[98], max(self.took_s)))
        counted = f"{len(self.took_s):5} POSTs, statuses {sorted(self.statuses)}"
        return f"{self.name:8} {counted}: p50 {p50:.0f} ms, p99 {p99:.0f} ms, most {most:.0f} ms"


class Clients:
    """Posts at a rate, each in time whatever became of the one before."""

    def __init__(self, address: str, token: str, rate: float) -> None:
        self._address, self._token, self._rate = address, token, rate
        self._numbers = count(1)
        self._threads: list[threading.Thread] = []
        self.times = Times("before")
        self._is_stopping = threading.Event()

    def run(self) -> None:
        """Until it is stopped."""
        while not self._is_stopping.wait(1 / self._rate):
            thread = threading.Thread(
                target=self._post, args=(self.times, next(self._numbers)), daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self, runner: threading.Thread) -> None:
        """Wait for the answers that are under way."""
        self._is_stopping.set()
        runner.join()
        for thread in self._threads:
            thread.join()

    def _post(self, times: Times, number: int) -> None:
        headers = {"Authorization": f"Bearer {self._token}", "Idempotency-Key": f"beside-{number}"}
        began = time.monotonic()
        answer = requests.post(
            f"{self._address}/reports", json={"prompt": "hello"}, headers=headers, timeout=60
        )
        times.took_s.append(time.monotonic() - began)
        times.statuses.add(answer.status_code)


def fill(rows: int) -> str:
    """Old jobs of many users; returns a token for new ones."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs django.setup()

    from access.models import Token  # noqa: PLC0415  # likewise
    from budgets.models import InferenceBudget  # noqa: PLC0415  # likewise
    from reports.models import ReportJob  # noqa: PLC0415  # needs django.setup()

    users = [get_user_model().objects.create_user(f"user-{number}") for number in range(USERS)]
    then = datetime.now(UTC) - AGE
    instants = ("created_at", "updated_at", "started_at", "finished_at", "lease_expires_at")
    job = ReportJob(
        user=users[0],
        idempotency_key="old-0",
        prompt=TEXT,
        result_text=TEXT,
        status="succeeded",
        http_status=200,
        token_estimate=200,
        settled_tokens=400,
        day_utc=then.date(),
        **dict.fromkeys(instants, then),
    )
    job.id = job.claim_id = lowest_at(then)
    job.save(force_insert=True)
    copy(job, rows, first_user=users[0].pk)
    InferenceBudget.objects.create(user=users[0], daily_tokens=2**40, day_utc=then.date())
    return str(Token.objects.create(users[0])[1])


def copy(job: ReportJob, rows: int, *, first_user: int) -> None:
    """The same row again and again, with ids of that time, spread over the users."""
    born = job.pk.hex[:20]
    changed = {"user_id": f"{first_user} + n % {USERS}", "idempotency_key": "'old-' || n"}
    if connection.vendor == "postgresql":
        numbers = f"generate_series(1, {rows - 1}) AS numbers (n)"
        changed["id"] = f"('{born}' || lpad(to_hex(n), 12, '0'))::uuid"
    else:
        numbers = (
            "(WITH RECURSIVE counted (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted "  # noqa: S608  # numbers of ours
            f"WHERE n < {rows - 1}) SELECT n FROM counted)"
        )
        changed["id"] = f"'{born}' || printf('%012x', n)"
    columns = [str(field.column) for field in job._meta.concrete_fields]
    values = [changed.get(column, column) for column in columns]
    table = job._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) "  # noqa: S608  # names of ours
            f"SELECT {', '.join(values)} FROM {table}, {numbers}"
        )
        cursor.execute("ANALYZE")


def left(*, delete: bool) -> int:
    """How many old jobs still have their texts, or are still there."""
    from reports.models import ReportJob  # noqa: PLC0415  # needs django.setup()

    jobs = ReportJob.objects.filter(idempotency_key__startswith="old-")
    return (jobs if delete else jobs.filter(erased_at=None)).count()


def services(stack: ExitStack, directory: Path, *, sqlite: bool, delete: bool) -> None:
    """Start database and broker, and put them into the environment of all that follows."""
    database = f"sqlite:///{directory / 'reports.sqlite3'}"
    if not sqlite:
        postgres.SETTINGS.update(fsync="on", synchronous_commit="on", full_page_writes="on")
        database = stack.enter_context(postgres.running(directory / "pg")).url
    os.environ.update(
        PYTHON_DOTENV_DISABLED="1",
        DEBUG="1",
        SECRET_KEY=secrets.token_urlsafe(48),
        DATABASE_URL=database,
        REDIS_URL=stack.enter_context(valkey.running(directory / "valkey")).url,
        MAX_ACTIVE_JOBS_PER_USER="1000000",
        RETENTION_DAYS="30",
        KEY_RETENTION_DAYS="40" if delete else "0",
        DJANGO_SETTINGS_MODULE="reports_project.settings",
        PORT=str(valkey.free_port()),
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    )


def process(stack: ExitStack, directory: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start a process of the product, which ends with the benchmark."""
    log = directory / f"{words[-1]}.log"
    child = children.spawn([sys.executable, *words], log=log, directory=ROOT)
    stack.callback(children.stop, child, by=signal.SIGTERM, within_s=30)
    return child


def answers(address: str) -> bool:
    """Whether the web process serves."""
    try:
        return requests.get(f"{address}/healthz", timeout=2).ok
    except requests.RequestException:
        return False


def measure(stack: ExitStack, directory: Path, *, rows: int, rate: float, delete: bool) -> bool:
    """Run it and print what was seen; whether every POST was accepted in time."""
    import django  # noqa: PLC0415  # the environment is only there now
    from django.core.management import call_command  # noqa: PLC0415  # likewise

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    token = fill(rows)
    address = f"http://127.0.0.1:{os.environ['PORT']}"
    provider = str(valkey.free_port())
    os.environ["INFERENCE_URL"] = f"http://127.0.0.1:{provider}/complete"
    process(stack, directory, "manage.py", "rehearsal_provider", "--port", provider)
    process(stack, directory, "-m", "reports_project.web")
    keep = {"RETENTION_DAYS": "36500", "KEY_RETENTION_DAYS": "0"}
    kept = {name: os.environ[name] for name in keep}
    os.environ.update(keep)
    idle = process(stack, directory, "-m", "reports_project.worker")
    os.environ.update(kept)
    while not answers(address):
        time.sleep(0.1)
    clients = Clients(address, token, rate)
    runner = threading.Thread(target=clients.run, daemon=True)
    runner.start()
    time.sleep(BEFORE_S)
    before, clients.times = clients.times, Times("beside")
    children.stop(idle, by=signal.SIGTERM, within_s=30)
    process(stack, directory, "-m", "reports_project.worker")
    process(stack, directory, "-m", "reports_project.beat")
    began = time.monotonic()
    while (waiting := left(delete=delete)) and time.monotonic() - began < LONGEST_S:
        print(f"{time.monotonic() - began:6.0f} s: {waiting} left", flush=True)
        time.sleep(10)
    took_s = time.monotonic() - began
    clients.stop(runner)
    print(before, clients.times, sep="\n")
    done = rows - waiting
    what = "deleted" if delete else "erased"
    print(f"{done} jobs {what} in {took_s:.0f} s: {done / took_s:.0f} a second")
    is_fine = clients.times.statuses == {202} and max(clients.times.took_s) < TOO_LONG_S
    return is_fine and not waiting


def main() -> int:
    """Exit status 0 if no POST had to wait."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", type=int, default=200_000)
    words.add_argument("--rate", type=float, default=10.0)
    words.add_argument("--sqlite", action="store_true")
    words.add_argument("--delete", action="store_true")
    given = words.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parent = "/tmp" if os.geteuid() == 0 else None  # noqa: S108  # mkdtemp makes the name safe
    with tempfile.TemporaryDirectory(dir=parent) as name, ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o711)
        services(stack, directory, sqlite=given.sqlite, delete=given.delete)
        fine = measure(stack, directory, rows=given.rows, rate=given.rate, delete=given.delete)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
