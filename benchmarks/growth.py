"""What one operation costs with many old jobs beside it: the product's own functions.

The old jobs stand in one database, and none in its twin on the same server. Both are timed by
turns, so that a neighbour of this machine slows both.
"""

from __future__ import annotations

import statistics
import time
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.db import connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EMPTY = "empty"
TIMES = 300
SLOW_TIMES = 40
# Of the last twenty days, of users in turn; nineteen of twenty ended well.
FILL = """
INSERT INTO reports_reportjob (id, user_id, idempotency_key, prompt, prompt_digest, status,
       http_status, result_text, finish_reason, error_code, error_detail, token_estimate, day_utc,
       settled_tokens, claim_id, lease_expires_at, created_at, updated_at, started_at, finished_at,
       republished)
SELECT (lpad(to_hex((extract(epoch FROM born) * 1000)::bigint), 12, '0')
         || '7000' || 'a000' || lpad(to_hex(n), 12, '0'))::uuid,
       %(user)s + n %% %(users)s, 'old-' || n, repeat('a prompt ', 10), '',
       CASE WHEN n %% 20 = 0 THEN 'failed' ELSE 'succeeded' END,
       CASE WHEN n %% 20 = 0 THEN 503 ELSE 200 END, repeat('an answer ', 30), '',
       CASE WHEN n %% 20 = 0 THEN 'provider_5xx' ELSE '' END, '', 22,
       (born AT TIME ZONE 'UTC')::date, 22, gen_random_uuid(), born + interval '1 minute',
       born, born, born, born, 0
  FROM (SELECT n, now() - interval '20 days' + n * (interval '20 days' / %(rows)s) AS born
          FROM generate_series(1, %(rows)s) AS n) AS jobs
"""
INDEXES = """
SELECT indexname, indexdef FROM pg_indexes
 WHERE tablename = 'reports_reportjob'
   AND indexname NOT IN (SELECT conname FROM pg_constraint)
"""


def fill(rows: int, *, user: int, users: int) -> None:
    """Old jobs, set-based; the indexes are made after the rows, which is faster."""
    with connection.cursor() as cursor:
        cursor.execute(INDEXES)
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        if rows:
            cursor.execute(FILL, {"rows": rows, "user": user, "users": users})
        for _, definition in indexes:
            cursor.execute(definition)
        cursor.execute("VACUUM ANALYZE reports_reportjob")


def make_twin() -> None:
    """Copy the database as it is now; nobody may be connected to it."""
    ours = connection.settings_dict["NAME"]
    with _in("template1"), connection.cursor() as cursor:
        cursor.execute(f'DROP DATABASE IF EXISTS "{EMPTY}"')
        cursor.execute(f'CREATE DATABASE "{EMPTY}" TEMPLATE "{ours}"')


@contextmanager
def in_twin() -> Iterator[None]:
    """Work there for a while."""
    with _in(EMPTY):
        yield


@contextmanager
def _in(name: str) -> Iterator[None]:
    ours = connection.settings_dict["NAME"]
    _turn_to(name)
    try:
        yield
    finally:
        _turn_to(ours)


def _turn_to(name: str) -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # the backend's, not every one's
    connection.settings_dict["NAME"] = name


def costs(users: list[Any], token: str, operator: Any) -> dict[str, float]:
    """Median milliseconds of each operation, one at a time on an idle machine."""
    from django.test import Client  # noqa: PLC0415  # needs django.setup()

    from reports import acceptance, serializers, sweep, transitions  # noqa: PLC0415  # likewise
    from reports.models import ReportJob  # noqa: PLC0415  # likewise
    from reports.provider import Completion  # noqa: PLC0415  # likewise

    prompt = "Why is the sky blue?"
    jobs: list[tuple[int, Any]] = []

    def accept() -> None:
        user = users[len(jobs) % len(users)].pk
        jobs.append((user, acceptance.accept(user, key=uuid4().hex, prompt=prompt).job_id))

    def poll() -> None:
        user, job = jobs[-1]
        serializers.detail(ReportJob.objects.access(user, str(job)))

    found = {"accept": _median(accept, TIMES), "poll": _median(poll, TIMES)}
    claims: list[Any] = []
    waiting = iter(list(jobs))
    found["claim"] = _median(lambda: claims.append(transitions.claim(next(waiting)[1])), TIMES)
    running = iter(claims)
    answer = Completion(text="An answer.", finish_reason="stop", usage=None)
    found["finish"] = _median(lambda: transitions.succeed(next(running), answer), TIMES)
    admin = Client()
    admin.force_login(operator)

    def read(client: Client, path: str) -> None:
        status = client.get(path, SERVER_NAME="localhost").status_code
        if status != HTTPStatus.OK:
            raise RuntimeError(f"{path} answered {status}")

    api = Client(headers={"Authorization": f"Bearer {token}"})
    found["list page 1"] = _median(lambda: read(api, "/reports"), SLOW_TIMES)
    found["sweep"] = _median(sweep.sweep, SLOW_TIMES)
    found["admin list"] = _median(lambda: read(admin, "/admin/reports/reportjob/"), SLOW_TIMES)
    return found


def _median(do: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        began = time.perf_counter()
        do()
        took.append(time.perf_counter() - began)
    return 1000 * statistics.median(took)
