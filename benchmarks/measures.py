"""The measurements, each on whatever system it is given."""

from __future__ import annotations

import http.client
import json
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import redis

from benchmarks.driver import Load, drive
from benchmarks.stage import memory_mb, threads, wait_for

if TYPE_CHECKING:
    from benchmarks.systems import System

CONNECTIONS = 16
HELD_FOR_S = 2.0
FOR_EVER_S = 3600.0
DEFAULT_SLOTS = 100  # of WORKER_CONCURRENCY
WARM_UP = 200


@dataclass(frozen=True, slots=True)
class Held:
    """What many calls in flight cost."""

    calls: int
    memory_mb: float
    connections: int
    threads: int
    all_done_after_s: float


def clear(system: System) -> None:
    """No job and no message, as at the beginning; workers are stopped."""
    system.stop_workers()
    system.stage.provider("/release")
    system.stage.provider("/delay/0")
    with psycopg.connect(system.stage.database.url, autocommit=True) as connection:
        connection.execute(f"TRUNCATE {system.jobs}")
        connection.execute("TRUNCATE budgets_inferencebudget")
        connection.execute("CHECKPOINT")
    with redis.Redis.from_url(system.stage.broker.url) as broker:
        broker.flushall()


def accept(system: System, *, for_s: float, users: int | None = None) -> Load:
    """POSTs alone, no worker."""
    make = system.post() if users is None else system.post(users=users)
    load = _fine(drive(system.port, make, connections=CONNECTIONS, for_s=for_s), 202)
    clear(system)
    return load


def accept_beside(system: System, *, for_s: float, delay_s: float, slots: int) -> Load:
    """POSTs while every slot of the workers waits for the provider."""
    system.stage.provider(f"/delay/{FOR_EVER_S}")
    system.start_workers(slots)
    _post(system, 2 * slots)
    wait_for(
        lambda: system.stage.provider("/seen", "GET")["waiting"] >= slots,
        what="calls in flight",
        within_s=60,
    )
    if delay_s != FOR_EVER_S:  # the other half of the jobs and what is posted keep the slots taken
        system.stage.provider(f"/delay/{delay_s}")
        system.stage.provider("/release")
    load = _fine(drive(system.port, system.post(), connections=CONNECTIONS, for_s=for_s), 202)
    clear(system)
    return load


def accept_without_broker(system: System, *, for_s: float) -> Load:
    """POSTs while nobody listens on the broker's port."""
    system.stage.broker.stop()
    try:
        load = drive(system.port, system.post(), connections=CONNECTIONS, for_s=for_s)
    finally:
        system.stage.broker.start()
    clear(system)
    return _fine(load, 202)


def completed(system: System, *, jobs: int) -> float:
    """Jobs a second from the first POST to the last ending, the provider answering at once."""
    system.start_workers(DEFAULT_SLOTS)
    _post(system, WARM_UP)
    _all_ended(system, WARM_UP)
    began = time.perf_counter()
    _post(system, jobs)
    _all_ended(system, WARM_UP + jobs)
    rate = jobs / (time.perf_counter() - began)
    clear(system)
    return rate


def held(system: System, *, calls: int, delay_s: float) -> Held:
    """So many calls in flight at a time on the worker, each as long."""
    system.stage.provider(f"/delay/{delay_s}")
    system.start_workers(calls)
    _post(system, calls)
    wait_for(
        lambda: system.stage.provider("/seen", "GET")["waiting"] >= calls,
        what=f"{calls} calls in flight",
        within_s=delay_s + 60,
    )
    began = time.perf_counter()
    workers = [system.stage.started[name] for name in system.workers]
    with psycopg.connect(system.stage.database.url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
    memory = sum(memory_mb(worker) for worker in workers)
    lines = sum(threads(worker) for worker in workers)
    _all_ended(system, calls)
    seen = Held(calls, memory, row[0] if row else 0, lines, time.perf_counter() - began)
    clear(system)
    return seen


def started_after_ms(system: System, *, jobs: int) -> float:
    """Median time from an answered POST to the provider's sight of the call; machine idle."""
    system.start_workers(DEFAULT_SLOTS)
    _post(system, 20)
    _all_ended(system, 20)
    load = drive(system.port, system.post(at_most=jobs), connections=1, for_s=60.0, pause_s=0.04)
    _all_ended(system, 20 + jobs)
    came_at = system.stage.provider("/seen", "GET")["came_at"]
    waits = [came_at[json.loads(body)["job_id"]] - at for at, body in load.answered]
    clear(system)
    return float(1000 * statistics.median(waits))


def poll(system: System, *, for_s: float) -> tuple[Load, Load | None]:
    """GETs of an ended job: whole, and with its ETag where there is one."""
    system.start_workers(DEFAULT_SLOTS)
    load = _post(system, 1)
    job_id = json.loads(load.answered[0][1])["job_id"]
    _all_ended(system, 1)
    system.stop_workers()
    path = f"/reports/{job_id}"
    token = system.tokens[system.number % len(system.tokens)]
    whole = system.get(path, token)
    first = _fine(drive(system.port, whole, connections=CONNECTIONS, for_s=for_s), 200)
    tag = _etag_of(system, whole())
    unchanged = None
    if tag:
        make = system.get(path, token, **{"If-None-Match": tag})
        unchanged = _fine(drive(system.port, make, connections=CONNECTIONS, for_s=for_s), 304)
    clear(system)
    return first, unchanged


def _etag_of(system: System, content: bytes) -> str:
    method, path, _ = content.split(b"\r\n")[0].decode().split(" ")
    lines = content.decode().split("\r\n")[1:-2]
    headers = dict(line.split(": ", 1) for line in lines)
    connection = http.client.HTTPConnection("127.0.0.1", system.port)
    connection.request(method, path, headers=headers)
    with connection.getresponse() as answer:
        tag = answer.headers.get("ETag", "")
    connection.close()
    return tag


def _post(system: System, jobs: int) -> Load:
    make = system.post(at_most=jobs)
    return _fine(drive(system.port, make, connections=CONNECTIONS, for_s=FOR_EVER_S), 202)


def _all_ended(system: System, jobs: int) -> None:
    with psycopg.connect(system.stage.database.url, autocommit=True) as connection:

        def is_so() -> bool:
            row = connection.execute(
                f"SELECT count(*) FROM {system.jobs} WHERE status = 'succeeded'"  # noqa: S608  # ours
            ).fetchone()
            return row is not None and row[0] >= jobs

        wait_for(is_so, what=f"{jobs} jobs of {system.name} ended", within_s=120)


def _fine(load: Load, status: int) -> Load:
    if set(load.statuses) != {status}:
        raise RuntimeError(f"answers with {dict(load.statuses)}, not {status} alone")
    return load
