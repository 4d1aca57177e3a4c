"""A million jobs of five thousand users, filled set-based: the shape that hurts, not the average.

One user has 300,000 jobs and no failure, 20,000 jobs wait, 1,000 run, nine of ten succeeded. The
younger jobs were born in the last three quarters of an hour, the others five seconds apart.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = 1_000_000
USERS = 5_000
QUEUED = 20_000
RUNNING = 1_000
# The whale comes first and has none of the active jobs; everybody else has a few.
WHALE = "user 1"
PERSON = "user 2"
TABLES = (
    "auth_user",
    "access_token",
    "budgets_inferencebudget",
    "reports_reportjob",
    "reports_usageday",
)

# Age 1 is the youngest. Instants are reckoned in milliseconds, which is far quicker.
FILL = f"""
INSERT INTO auth_user (id, username, password, first_name, last_name, email, is_staff, is_active,
                       is_superuser, date_joined)
SELECT number, 'user ' || number, '', '', '', '', false, true, false, now()
  FROM generate_series(1, {USERS}) AS number;
SELECT setval(pg_get_serial_sequence('auth_user', 'id'), {USERS});
INSERT INTO access_token (user_id, created, digest, token_key, name)
SELECT number, now(), md5(number::text), 'shown', '' FROM generate_series(1, {USERS}) AS number;
INSERT INTO reports_reportjob (id, user_id, idempotency_key, prompt, prompt_digest, status,
       http_status, result_text, finish_reason, error_code, error_detail, token_estimate, day_utc,
       prompt_tokens, completion_tokens, settled_tokens, attempts, claim_id, lease_expires_at,
       created_at, updated_at, started_at, finished_at, erased_at, publish_again_at, republished)
SELECT id, CASE WHEN NOT is_active AND age % 100 < 34 AND NOT is_failed THEN 1
                ELSE 2 + age % {USERS - 1} END,
       'key ' || age, CASE WHEN is_old THEN '' ELSE 'a prompt' END,
       CASE WHEN is_old THEN 'digest' ELSE '' END,
       CASE WHEN is_queued THEN 'queued' WHEN is_active THEN 'running'
            WHEN is_failed THEN 'failed' ELSE 'succeeded' END,
       CASE WHEN is_active THEN NULL WHEN is_failed THEN 500 ELSE 200 END,
       CASE WHEN is_old OR is_active OR is_failed THEN '' ELSE 'a text' END, '',
       CASE WHEN NOT is_failed THEN '' WHEN age % 1000 = 1 THEN 'worker_lost'
            ELSE 'provider_5xx' END, '', 10, (born AT TIME ZONE 'UTC')::date,
       CASE WHEN NOT is_active AND NOT is_failed THEN 2 END,
       CASE WHEN NOT is_active AND NOT is_failed THEN 5 END,
       CASE WHEN is_active THEN NULL WHEN is_failed THEN 0 ELSE 7 END,
       CASE WHEN is_queued THEN 0 ELSE 1 END, CASE WHEN NOT is_queued THEN id END,
       CASE WHEN NOT is_queued THEN born + interval '3 hours' END, born, born,
       CASE WHEN NOT is_queued THEN born END,
       CASE WHEN NOT is_active THEN born + interval '1 minute' END,
       CASE WHEN is_old THEN born + interval '30 days' END, born + interval '2 hours', 0
  FROM (SELECT age, age <= {QUEUED} AS is_queued, age <= {QUEUED + RUNNING} AS is_active,
               age > {QUEUED + RUNNING} AND age % 10 = 1 AS is_failed,
               born_ms < now_ms - 30 * 86400000::bigint AS is_old,
               to_timestamp(born_ms / 1000.0::float8) AS born,
               ('0' || to_hex(born_ms) || '7000a000' || to_hex(age + x'100000000000'::bigint))::uuid
                 AS id
          FROM (SELECT age, now_ms,
                       now_ms - CASE WHEN age <= {QUEUED + RUNNING} THEN age * 120
                                     ELSE 2520000 + (age - {QUEUED + RUNNING}) * 5000 END AS born_ms
                  FROM generate_series({JOBS}::bigint, 1, -1) AS age,
                       (SELECT (date_part('epoch', now()) * 1000)::bigint AS now_ms) AS clock
               ) AS ages) AS jobs;
INSERT INTO budgets_inferencebudget
       (user_id, daily_tokens, is_own, spent_tokens, reserved_tokens, active_jobs, day_utc)
SELECT user_id, 10000000, false,
       coalesce(sum(coalesce(settled_tokens, token_estimate))
         FILTER (WHERE day_utc = (now() AT TIME ZONE 'UTC')::date), 0),
       coalesce(sum(token_estimate) FILTER (WHERE finished_at IS NULL
         AND day_utc = (now() AT TIME ZONE 'UTC')::date), 0),
       count(*) FILTER (WHERE finished_at IS NULL), (now() AT TIME ZONE 'UTC')::date
  FROM reports_reportjob GROUP BY user_id;
INSERT INTO reports_usageday (day_utc, user_id, jobs, reserved_tokens, settled_tokens,
       released_tokens, unclear_ends, unclear_tokens)
SELECT (now() AT TIME ZONE 'UTC')::date - 2, number, 9, 90, 63, 27, 0, 0
  FROM generate_series(1, {USERS}) AS number
"""  # noqa: S608  # the numbers are those above
# What is quicker made at once from all rows than row by row: indexes first, then what needs them.
INDEXES = """
SELECT 'DROP INDEX ' || name, definition FROM (
    SELECT indexname AS name, indexdef AS definition FROM pg_indexes
     WHERE tablename = 'reports_reportjob') AS indexes
 WHERE name NOT IN (SELECT conname FROM pg_constraint)
"""
KEYS = """
SELECT 'ALTER TABLE reports_reportjob DROP CONSTRAINT ' || conname,
       'ALTER TABLE reports_reportjob ADD CONSTRAINT ' || conname || ' '
         || pg_get_constraintdef(oid)
  FROM pg_constraint WHERE conrelid = 'reports_reportjob'::regclass AND contype IN ('u', 'p')
"""


@contextmanager
def filled() -> Iterator[None]:
    """The rows, committed and with the planner's statistics, as long as the block lasts."""
    _fill()
    _execute("ALTER TABLE reports_reportjob SET (autovacuum_enabled = false)")  # nothing moves
    _execute(f"VACUUM (ANALYZE) {', '.join(TABLES)}")
    try:
        yield
    finally:
        _execute(f"TRUNCATE {', '.join(TABLES)} CASCADE")
        _execute("ALTER TABLE reports_reportjob RESET (autovacuum_enabled)")


def _fill() -> None:
    with transaction.atomic():
        _execute("SET LOCAL maintenance_work_mem = '256MB'")
        # Whose the rows are was inserted a moment ago: no look at each.
        _execute("SET LOCAL session_replication_role = replica")
        made_again = _execute(INDEXES) + _execute(KEYS)
        for drop, _ in made_again:
            _execute(drop)
        for statement in FILL.split(";"):
            _execute(statement)
        for _, make in made_again:
            _execute(make)


def _execute(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []
