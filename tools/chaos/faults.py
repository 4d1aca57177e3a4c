"""The faults: what is done to processes, broker and database, at random and counted."""

from __future__ import annotations

import heapq
import random
import signal
import time
from collections import Counter
from itertools import count
from typing import TYPE_CHECKING

import psycopg
import redis
from celery import Celery
from kombu.exceptions import OperationalError

from tools.chaos.stack import LEASE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.chaos.load import Load
    from tools.chaos.stack import Member, Stack

DUPLICATES = 30


class Faults:
    """One fault after the other; what a fault must undo later, such as a thaw, waits in line."""

    def __init__(self, stack: Stack, load: Load, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self.details: Counter[str] = Counter()
        self._stack = stack
        self._load = load
        self._dice = random.Random(seed)  # noqa: S311  # a seed must repeat it
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._celery = Celery(broker=stack.broker.url)
        self._menu: dict[Callable[[], None], int] = {
            self._kill: 16,
            self._kill_all_workers: 2,
            self._terminate: 12,
            self._freeze: 12,
            self._freeze_past_lease: 7,
            self._flush: 10,
            self._drop_broker_connections: 5,
            self._restart_broker: 8,
            self._freeze_broker: 5,
            self._cut_connections: 12,
            self._restart_database: 2,
            self._duplicate: 12,
        }

    @property
    def total(self) -> int:
        """How many there were."""
        return self.counts.total()

    def strike(self) -> None:
        """Do one, chosen by the dice."""
        self._dice.choices(list(self._menu), list(self._menu.values()))[0]()

    def pause_s(self, mean_s: float) -> float:
        """How long to the next one."""
        return self._dice.expovariate(1 / mean_s)

    def undo_due(self, *, all_of_them: bool = False) -> None:
        """Thaw what has been frozen for long enough."""
        while self._later and (all_of_them or self._later[0][0] <= time.monotonic()):
            heapq.heappop(self._later)[2]()

    def _after(self, seconds: float, undo: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), undo))

    def _one(self) -> Member | None:
        up = [member for member in self._stack.members if member.is_up]
        # Twice as often a worker: it is the one that holds something.
        weights = [2 if member.kind == "worker" else 1 for member in up]
        return self._dice.choices(up, weights)[0] if up else None

    def _did(self, what: str, detail: str = "") -> None:
        self.counts[what] += 1
        if detail:
            self.details[f"{what} {detail}"] += 1

    def _kill(self) -> None:
        if member := self._one():
            member.send(signal.SIGKILL)
            self._did("SIGKILL", member.kind)

    def _kill_all_workers(self) -> None:
        for member in self._stack.members:
            if member.kind == "worker" and member.is_up:
                member.send(signal.SIGKILL)
                self._did("SIGKILL", member.kind)

    def _terminate(self) -> None:
        if member := self._one():
            member.send(signal.SIGTERM)
            self._did("SIGTERM", member.kind)

    def _freeze(self) -> None:
        self._freeze_for(self._dice.uniform(0.2, 3))

    def _freeze_past_lease(self) -> None:
        self._freeze_for(self._dice.uniform(LEASE_S + 1, LEASE_S + 5))

    def _freeze_for(self, seconds: float) -> None:
        member = self._one()
        if member is None:
            return
        child = member.child
        member.send(signal.SIGSTOP)
        self._did("SIGSTOP", member.kind + (" past a lease" if seconds > LEASE_S else ""))

        def thaw() -> None:
            if member.child is child and child.poll() is None and member.is_frozen:
                member.send(signal.SIGCONT)

        self._after(seconds, thaw)

    def _flush(self) -> None:
        with self._broker() as broker:
            broker.flushall()
        self._did("broker flushed")

    def _drop_broker_connections(self) -> None:
        with self._broker() as broker:
            broker.client_kill_filter(_type="normal", skipme=True)
        self._did("broker connections dropped")

    def _restart_broker(self) -> None:
        down_s = self._dice.choice((0.0, 0.5, 2.0))
        self._stack.broker.stop(by=signal.SIGKILL)
        time.sleep(down_s)
        self._stack.broker.start()
        self._did("broker restarted")

    def _freeze_broker(self) -> None:
        child = self._stack.broker.child
        child.send_signal(signal.SIGSTOP)
        time.sleep(self._dice.uniform(0.3, 2.5))
        child.send_signal(signal.SIGCONT)
        self._did("broker frozen")

    def _cut_connections(self) -> None:
        share = self._dice.choice((0.2, 0.5, 1.0))
        try:
            with self._stack.connect() as connection:
                cut = connection.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                    " AND random() < %s",
                    [share],
                ).fetchone()
        except psycopg.OperationalError:
            return
        self._did("database connections cut")
        self.details["database connections cut, each"] += cut[0] if cut else 0

    def _restart_database(self) -> None:
        self._stack.database.stop()
        self._stack.database.start()
        self._did("database restarted")

    def _duplicate(self) -> None:
        job_ids = self._load.some_jobs(3 * DUPLICATES)
        chosen = self._dice.sample(job_ids, min(DUPLICATES, len(job_ids)))
        try:
            with self._celery.connection_for_write() as connection:
                for job_id in chosen:
                    self._celery.send_task(
                        "reports.run",
                        args=[job_id],
                        queue="jobs",
                        connection=connection,
                        retry=False,
                        ignore_result=True,
                    )
        except (OperationalError, redis.RedisError, OSError):
            return
        self._did("messages duplicated")
        self.details["messages duplicated, each"] += len(chosen)

    def _broker(self) -> redis.Redis:
        return redis.Redis.from_url(self._stack.broker.url, socket_timeout=5)
