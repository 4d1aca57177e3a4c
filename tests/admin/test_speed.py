"""How the admin reads many jobs: every statement by an index, and none of them counts all."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.admin.paths import BUDGETS, FRONT, JOBS, USAGE, listed
from tests.support.rows import today

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite keeps no statistics"),
]

ROWS = 40_000
USERS = 5000
RETENTION = "reportjob_retention_idx"
LARGE = {"reports_reportjob", "budgets_inferencebudget"}
# Born one in twenty seconds; of a thousand one was lost, ten failed otherwise, others succeeded.
FILL = """
INSERT INTO auth_user (username, password, first_name, last_name, email, is_staff, is_active,
                       is_superuser, date_joined)
SELECT 'user ' || number, '', '', '', '', false, true, false, now()
  FROM generate_series(1, %(users)s) AS number;
INSERT INTO reports_reportjob (id, user_id, idempotency_key, prompt, prompt_digest, status,
       http_status, result_text, finish_reason, error_code, error_detail, token_estimate, day_utc,
       settled_tokens, claim_id, lease_expires_at, created_at, updated_at, started_at, finished_at,
       republished)
SELECT (lpad(to_hex((extract(epoch FROM born) * 1000)::bigint), 12, '0')
         || '7000' || 'a000' || lpad(to_hex(age), 12, '0'))::uuid,
       (SELECT min(id) FROM auth_user WHERE username LIKE 'user %%') + age %% %(users)s,
       'key ' || age, 'a prompt', '', status,
       CASE WHEN status = 'queued' THEN NULL WHEN status = 'running' THEN NULL
            WHEN status = 'failed' THEN 500 ELSE 200 END, '', '', error_code, '', 10,
       (born AT TIME ZONE 'UTC')::date,
       CASE WHEN finished THEN 10 END,
       CASE WHEN status <> 'queued' THEN gen_random_uuid() END,
       CASE WHEN status <> 'queued' THEN born + interval '1 minute' END, born, born,
       CASE WHEN status <> 'queued' THEN born END, CASE WHEN finished THEN born END, 0
  FROM (SELECT age, now() - age * interval '20 second' AS born,
               CASE WHEN age <= 50 THEN 'queued' WHEN age <= 100 THEN 'running'
                    WHEN age %% 100 = 1 THEN 'failed' ELSE 'succeeded' END AS status,
               CASE WHEN age <= 100 OR age %% 100 <> 1 THEN ''
                    WHEN age %% 1000 = 1 THEN 'worker_lost' ELSE 'provider_5xx' END AS error_code,
               age > 100 AS finished
          FROM generate_series(1, %(rows)s) AS age) AS jobs;
INSERT INTO budgets_inferencebudget (user_id, daily_tokens, spent_tokens, active_jobs, day_utc)
SELECT id, 100000, 5, 0, (now() AT TIME ZONE 'UTC')::date - (id %% 50)::int FROM auth_user;
"""


@pytest.fixture
def many_jobs(db: None) -> None:
    """A table that is worth an index."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"rows": ROWS, "users": USERS})
        for table in ("auth_user", *sorted(LARGE)):
            cursor.execute(f"ANALYZE {table}")


def indexes_in(sql: str) -> Iterator[str]:
    """By which index PostgreSQL reads each large table of a statement; "" for one read whole."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
        (plan,) = cursor.fetchone()
    nodes: list[dict[str, Any]] = [plan[0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node.get("Relation Name") in LARGE:
            # A bitmap of pages names its index one step below.
            below = (node.get("Plans") or [{}])[0]
            yield node.get("Index Name") or below.get("Index Name", "")


def indexes_of(client: Client, path: str, query: dict[str, str]) -> list[str]:
    """The indexes by which a page reads the large tables; "" for a table that is read whole."""
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path, query).status_code == 200
    statements = [row["sql"] or "" for row in captured]
    plans = [
        list(indexes_in(sql)) for sql in statements if any(f'"{table}"' in sql for table in LARGE)
    ]
    assert all(plans), statements
    return [index for plan in plans for index in plan]


@pytest.mark.timeout(120)
def test_operators_read_large_tables_by_an_index_only(operator: Client, many_jobs: None):
    newest = listed(operator.get(JOBS))[0]
    key, user_idx = "reports_reportjob_pkey", "reportjob_history_idx"
    keys = "reports_reportjob_user_id_idempotency_key_15f70489_uniq"
    failures, lease = "reportjob_failures_idx", "reportjob_lease_idx"
    queue = {"reportjob_queue_idx", "reportjob_publish_idx"}
    yesterday = str(today() - timedelta(days=1))
    expected: list[tuple[str, dict[str, str], set[str]]] = [
        (JOBS, {}, {key}),
        (JOBS, {"p": "2"}, {key}),
        (JOBS, {"status__exact": "queued"}, queue),
        (JOBS, {"status__exact": "running"}, {lease}),
        (JOBS, {"status__exact": "succeeded"}, {key}),
        (JOBS, {"status__exact": "failed"}, {key, failures}),
        (JOBS, {"error_code__exact": "worker_lost"}, {failures}),
        (JOBS, {"error_code__exact": "internal_error"}, {failures}),
        (JOBS, {"day": yesterday}, {key}),
        (JOBS, {"day": "2020-01-01"}, {key}),
        (JOBS, {"day": yesterday, "error_code__exact": "worker_lost"}, {key, failures}),
        (JOBS, {"q": newest}, {key}),
        # Of the few jobs of one user, PostgreSQL may as well sort what the other index finds.
        (JOBS, {"q": "user 7"}, {user_idx, keys}),
        (JOBS, {"q": "key 12345"}, {keys}),
        (JOBS, {"q": "no such thing"}, {keys}),
        (BUDGETS, {}, {"budgets_inferencebudget_pkey"}),
        (BUDGETS, {"q": "user 7"}, {"budgets_inferencebudget_pkey"}),
        (
            FRONT,
            {},
            {"reportjob_endings_idx", lease, "inferencebudget_day_idx", RETENTION, *queue},
        ),
        (USAGE, {}, {key, *queue}),
    ]

    for path, query, indexes in expected:
        found = indexes_of(operator, path, query)
        assert found, path
        assert set(found) <= indexes, (path, query)
