"""Brings the numbers of all processes together, through the broker, for whoever is scraped.

Web processes share a port and workers have none, and both may be on other machines. So each adds
what it counted to one hash on the broker every few seconds, and any web process reads the sums.
What a broker that is away does not take is kept and added later.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Any

import redis
from django.conf import settings
from prometheus_client.core import Metric
from redis.backoff import NoBackoff
from redis.retry import Retry

from telemetry import meters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from prometheus_client.core import Sample

EVERY_S = 2.0
ALIVE_EVERY_S = 5.0
ALIVE_FOR_S = 20
# Of one question to the broker: connecting and reading together stay under a second.
LIMIT_S = 0.4
NUMBERS = "reports.metrics.numbers"
PROCESSES = "reports.metrics.processes"
PROCESS = "reports.metrics.process."

logger = logging.getLogger(__name__)


class Relay:
    """This process's way to the sums."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handed_over: dict[str, float] = {}
        self._told_at = -ALIVE_EVERY_S
        self._was_taken = True

    def hand_over(self, now: Mapping[str, int | str] | None = None) -> bool:
        """Add what changed to the sums, and tell what this process is and does `now`.

        False: the broker did not take it. Should the answer alone be lost, a change is added twice.
        """
        with self._lock:
            numbers = {_name(sample.name, sample.labels): sample.value for sample in _samples()}
            changes = {
                name: number - self._handed_over.get(name, 0.0)
                for name, number in numbers.items()
                if number != self._handed_over.get(name, 0.0)
            }
            tells = now is not None and time.monotonic() - self._told_at >= ALIVE_EVERY_S
            if not (changes or tells):
                return True
            try:
                self._send(changes, now if tells else None)
            except redis.RedisError as error:
                self._say(type(error).__name__)
                return False
            self._handed_over = numbers
            self._say("")
            return True

    def _send(self, changes: Mapping[str, float], now: Mapping[str, int | str] | None) -> None:
        with broker().pipeline(transaction=True) as commands:
            for name, change in changes.items():
                commands.hincrbyfloat(NUMBERS, name, change)
            if now is not None:
                who = f"{socket.gethostname()}.{os.getpid()}"
                commands.sadd(PROCESSES, who)
                commands.set(f"{PROCESS}{who}", json.dumps(now), ex=ALIVE_FOR_S)
            commands.execute()
        if now is not None:
            self._told_at = time.monotonic()

    def _say(self, problem: str) -> None:
        if bool(problem) is self._was_taken:
            self._was_taken = not problem
            if problem:
                logger.warning("the broker takes no numbers (%s); they are kept", problem)

    def start(self, role: str, now: Callable[[], Mapping[str, int]] = dict) -> None:
        """Hand over again and again from a thread of its own, and once more at the end."""
        threading.Thread(target=self._run, args=(role, now), name="relay", daemon=True).start()
        atexit.register(self.hand_over)

    def _run(self, role: str, now: Callable[[], Mapping[str, int]]) -> None:
        while True:
            self.hand_over({"role": role, **now()})
            time.sleep(EVERY_S)


_relay = Relay()
hand_over = _relay.hand_over
start = _relay.start


def sums() -> list[Metric]:
    """Every number of every process, with those that are still 0. Raises RedisError."""
    kept: Any = broker().hgetall(NUMBERS)
    summed = []
    numbers = {_name(sample.name, sample.labels): 0.0 for sample in _samples()}
    numbers |= {name.decode(): float(number) for name, number in kept.items()}
    read = sorted((_read(name, number) for name, number in numbers.items()), key=_in_order)
    for metric in meters.registry.collect():
        summed.append(Metric(metric.name, metric.documentation, metric.type))
        names = {f"{metric.name}_{ending}" for ending in ("total", "bucket", "count", "sum")}
        for name, labels, number in read:
            if name in names:
                summed[-1].add_sample(name, labels, number)
    return summed


def processes() -> list[dict[str, Any]]:
    """What each live process told of itself. Raises RedisError."""
    names = [name.decode() for name in broker().smembers(PROCESSES)]  # type: ignore[union-attr]
    if not names:
        return []
    told: Any = broker().mget([f"{PROCESS}{name}" for name in names])
    gone = [name for name, what in zip(names, told, strict=True) if what is None]
    if gone:
        broker().srem(PROCESSES, *gone)
    return [json.loads(what) for what in told if what is not None]


def _samples() -> Iterator[Sample]:
    return (sample for metric in meters.registry.collect() for sample in metric.samples)


def _name(name: str, labels: Mapping[str, str]) -> str:
    return json.dumps([name, *labels.items()], separators=(",", ":"))


def _read(name: str, number: float) -> tuple[str, dict[str, str], float]:
    sample, *labels = json.loads(name)
    return sample, dict(labels), number


def _in_order(read: tuple[str, dict[str, str], float]) -> tuple[list[tuple[str, str]], str, float]:
    """By labels; of a histogram, its buckets from the lowest limit on."""
    name, labels, _ = read
    others = sorted((label, word) for label, word in labels.items() if label != "le")
    return others, name, float(labels.get("le", "inf"))


@cache
def broker() -> redis.Redis:
    """A connection of its own, so that no number waits for a message that is being published."""
    return redis.Redis.from_url(
        settings.CELERY_BROKER_URL,
        socket_connect_timeout=LIMIT_S,
        socket_timeout=LIMIT_S,
        retry=Retry(NoBackoff(), 0),
    )
