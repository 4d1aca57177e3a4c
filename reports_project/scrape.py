"""What `/metrics` says: the sums of all processes, and the jobs that wait and run now.

A part that is away is told of as `reports_up 0` and its numbers are missing; the rest is there.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import redis
from django.db import Error as DatabaseProblem
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from reports import census, dispatch
from telemetry import relay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

# Whoever asks more often gets the last answer, and so does whoever asks while another is answered.
REMEMBERED_S = 1.0
MEANINGS = {
    "overdue": "Running jobs whose lease has run out: the sweep should have failed them.",
    "oldest_queued_seconds": "How long the oldest queued job has waited.",
    "oldest_text_seconds": "Since the end of the oldest job whose texts are still there.",
    "calls_in_flight": "Provider calls that are under way.",
    "worker_slots": "Calls that all workers together can have under way.",
    "streams": "Event streams that are open.",
}

_lock = threading.Lock()
_last: tuple[float, bytes] = (-REMEMBERED_S, b"")


def text() -> bytes:
    """Everything in Prometheus' text format, at most a second old where its parts are well."""
    global _last  # noqa: PLW0603  # the memory of one process
    # While a part that is away is waited for, one thread waits and not all of them.
    if _lock.acquire(blocking=not _last[1]):
        try:
            if time.monotonic() - _last[0] >= REMEMBERED_S:
                _last = time.monotonic(), _collect()
        finally:
            _lock.release()
    return _last[1]


def forget() -> None:
    """Answer the next question anew."""
    global _last  # noqa: PLW0603
    _last = (-REMEMBERED_S, b"")


def _collect() -> bytes:
    relay.hand_over()
    up = GaugeMetricFamily(
        "reports_up", "Whether this part of the product answers.", labels=["part"]
    )
    registry = CollectorRegistry(auto_describe=False)
    for collector in (_Jobs(up), _Processes(up), _Answering(up)):
        registry.register(collector)
    return generate_latest(registry)


class _Part(Collector):
    def __init__(self, up: GaugeMetricFamily) -> None:
        self.up = up


class _Jobs(_Part):
    def collect(self) -> Iterator[Metric]:
        try:
            found = census.take()
        except DatabaseProblem:
            self.up.add_metric(["database"], 0)
            return
        self.up.add_metric(["database"], 1)
        jobs = GaugeMetricFamily(
            "reports_jobs",
            f"Jobs by status now, counted to {census.COUNTED} at most.",
            labels=["status"],
        )
        jobs.add_metric(["queued"], found.queued)
        jobs.add_metric(["running"], found.running)
        yield jobs
        numbers: dict[str, float] = {"overdue": found.overdue}
        numbers["oldest_queued_seconds"] = found.oldest_queued_s
        numbers["oldest_text_seconds"] = found.oldest_text_s
        for name, number in numbers.items():
            yield GaugeMetricFamily(f"reports_{name}", MEANINGS[name], value=number)


class _Processes(_Part):
    def collect(self) -> Iterator[Metric]:
        try:
            sums, processes = relay.sums(), relay.processes()
            is_worker_seen = bool(relay.broker().exists(dispatch.SEEN_KEY))
        except redis.RedisError:
            self.up.add_metric(["broker"], 0)
            return
        self.up.add_metric(["broker"], 1)
        self.up.add_metric(["worker"], is_worker_seen)
        yield from sums
        yield self._alive(processes)
        for name in ("calls_in_flight", "worker_slots", "streams"):
            number = sum(process.get(name, 0) for process in processes)
            yield GaugeMetricFamily(f"reports_{name}", MEANINGS[name], value=number)

    def _alive(self, processes: list[dict[str, object]]) -> GaugeMetricFamily:
        alive = GaugeMetricFamily("reports_processes", "Live processes by role.", labels=["role"])
        roles = Counter(str(process["role"]) for process in processes)
        for role in ("web", "worker", "events"):
            alive.add_metric([role], roles[role])
        return alive


class _Answering(_Part):
    """Last, since the others have to find out."""

    def collect(self) -> Iterator[Metric]:
        yield self.up
