"""The design that the product grew from, by hand: FastAPI, psycopg, a Redis list, sync workers.

It has one look-up before its insert, no sweep, no lease, and a worker process for each call. The
web process is `uvicorn benchmarks.peers.source:app`, workers `python -m benchmarks.peers.source 4`.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any
from uuid import uuid4

import redis
import requests
from fastapi import FastAPI, Header, HTTPException
from psycopg_pool import ConnectionPool
from pydantic import BaseModel, Field

TABLES = """
CREATE TABLE IF NOT EXISTS source_jobs (
    id uuid PRIMARY KEY, user_id bigint NOT NULL, idempotency_key text NOT NULL,
    prompt text NOT NULL, status text NOT NULL, http_status int, result_text text,
    error_code text, token_estimate int NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (user_id, idempotency_key));
CREATE TABLE IF NOT EXISTS source_budgets (
    user_id bigint PRIMARY KEY, daily_tokens bigint NOT NULL, spent_tokens bigint NOT NULL,
    day_utc date NOT NULL);
"""
QUEUE = "source-jobs"
SCHEME = "Bearer user-"

app = FastAPI()
pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=1, max_size=20, open=False)
broker = redis.Redis.from_url(os.environ["REDIS_URL"])


class Report(BaseModel):
    """What is posted."""

    prompt: str = Field(min_length=1, max_length=8000)


@app.on_event("startup")
def open_pool() -> None:
    """Connections of each process's own."""
    pool.open()


def user_of(authorization: str) -> int:
    """Who asks."""
    if not authorization.startswith(SCHEME):
        raise HTTPException(401)
    return int(authorization.removeprefix(SCHEME))


@app.post("/reports", status_code=202)
def submit(
    report: Report,
    authorization: Annotated[str, Header()],
    idempotency_key: Annotated[str, Header()],
) -> dict[str, str]:
    """Look, reserve, insert, publish."""
    user_id = user_of(authorization)
    tokens = max(1, len(report.prompt) // 4)
    job_id = uuid4()
    with pool.connection() as connection:
        existing = connection.execute(
            "SELECT id, status FROM source_jobs WHERE user_id = %s AND idempotency_key = %s",
            (user_id, idempotency_key),
        ).fetchone()
        if existing:
            return {"job_id": str(existing[0]), "status": existing[1]}
        reserved = connection.execute(
            "UPDATE source_budgets SET spent_tokens = spent_tokens + %s"
            " WHERE user_id = %s AND spent_tokens + %s <= daily_tokens",
            (tokens, user_id, tokens),
        )
        if not reserved.rowcount:
            raise HTTPException(429, {"error": "budget_exhausted", "retry": "tomorrow"})
        connection.execute(
            "INSERT INTO source_jobs (id, user_id, idempotency_key, prompt, status, token_estimate)"
            " VALUES (%s, %s, %s, %s, 'queued', %s)",
            (job_id, user_id, idempotency_key, report.prompt, tokens),
        )
    broker.rpush(QUEUE, str(job_id))
    return {"job_id": str(job_id), "status": "queued"}


@app.get("/reports/{job_id}")
def read(job_id: str, authorization: Annotated[str, Header()]) -> dict[str, Any]:
    """The row."""
    with pool.connection() as connection:
        row = connection.execute(
            "SELECT status, http_status, result_text, error_code FROM source_jobs"
            " WHERE id = %s AND user_id = %s",
            (job_id, user_of(authorization)),
        ).fetchone()
    if row is None:
        raise HTTPException(404)
    return {"status": row[0], "http_status": row[1], "text": row[2], "error_code": row[3]}


def work() -> None:
    """Take one id after another, for ever."""
    session = requests.Session()
    pool.open()
    while True:
        taken: Any = broker.blpop(QUEUE)  # the types allow futures
        job_id = taken[1].decode()
        with pool.connection() as connection:
            row = connection.execute(
                "UPDATE source_jobs SET status = 'running', updated_at = now()"
                " WHERE id = %s AND status = 'queued' RETURNING prompt",
                (job_id,),
            ).fetchone()
        if row is None:
            continue
        answer = session.post(
            os.environ["INFERENCE_URL"],
            json={"prompt": row[0]},
            headers={"Idempotency-Key": job_id},
            timeout=45,
        )
        with pool.connection() as connection:
            connection.execute(
                "UPDATE source_jobs SET status = 'succeeded', http_status = 200, result_text = %s,"
                " updated_at = now() WHERE id = %s",
                (answer.json()["text"], job_id),
            )


def main() -> None:
    """So many processes, forked once everything is imported; the first one is this one."""
    for _ in range(int(sys.argv[1]) - 1):
        if os.fork() == 0:
            break
    work()


if __name__ == "__main__":
    main()
