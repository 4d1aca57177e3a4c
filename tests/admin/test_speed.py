"""How the admin reads many jobs: every statement by an index, and none of them counts all."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from tests.admin.paths import JOBS, listed
from tests.support.rows import today

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.test import Client

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite keeps no statistics"),
]

ROWS = 40_000
USERS = 500
TABLE = "reports_reportjob"
# Born one a second; of a thousand one was lost, ten failed otherwise, and the rest succeeded.
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
  FROM (SELECT age, now() - age * interval '1 second' AS born,
               CASE WHEN age <= 50 THEN 'queued' WHEN age <= 100 THEN 'running'
                    WHEN age %% 100 = 1 THEN 'failed' ELSE 'succeeded' END AS status,
               CASE WHEN age <= 100 OR age %% 100 <> 1 THEN ''
                    WHEN age %% 1000 = 1 THEN 'worker_lost' ELSE 'provider_5xx' END AS error_code,
               age > 100 AS finished
          FROM generate_series(1, %(rows)s) AS age) AS jobs;
"""


@pytest.fixture
def many_jobs(db: None) -> None:
    """A table that is worth an index."""
    with connection.cursor() as cursor:
        cursor.execute(FILL, {"rows": ROWS, "users": USERS})
        cursor.execute("ANALYZE auth_user")
        cursor.execute(f"ANALYZE {TABLE}")


def scans(sql: str) -> Iterator[tuple[str, str]]:
    """How PostgreSQL reads each table of a statement: the kind of scan, and by which index."""
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}")
        (plan,) = cursor.fetchone()
    nodes: list[dict[str, Any]] = [plan[0]["Plan"]]
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if TABLE in json.dumps(node.get("Relation Name", "")):
            yield node["Node Type"], node.get("Index Name", "")
        elif node["Node Type"] == "Bitmap Index Scan":
            yield node["Node Type"], node["Index Name"]


def test_each_list_filter_and_search_is_read_by_an_index(operator: Client, many_jobs: None):
    newest = listed(operator.get(JOBS))[0]
    queries: list[dict[str, str]] = [
        {},
        {"p": "2"},
        {"status__exact": "queued"},
        {"status__exact": "running"},
        {"status__exact": "succeeded"},
        {"day": str(today() - timedelta(days=1))},
        {"day": "2020-01-01"},
        {"q": newest},
        {"q": "user 7"},
        {"q": "key 12345"},
        {"q": "no such thing"},
    ]

    for query in queries:
        with CaptureQueriesContext(connection) as captured:
            response = operator.get(JOBS, query)
        assert response.status_code == 200
        statements = [sql for sql in (row["sql"] or "" for row in captured) if f'"{TABLE}"' in sql]
        assert statements
        for sql in statements:
            plan = list(scans(sql))
            assert plan, sql
            assert all(index for kind, index in plan if kind != "Bitmap Heap Scan"), (sql, plan)
