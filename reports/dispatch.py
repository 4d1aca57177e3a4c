"""Hand a job id to the broker, by task name: the task itself would drag in the provider.

The row is the promise and the message only a hint, so nothing here raises and nothing waits on a
request's time: what a broken broker or a crash loses, the sweep publishes again.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from celery import current_app
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from reports import events
from reports.logs import log_without_values
from reports.messages import JOBS_QUEUE, Pattern
from telemetry import traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from kombu import Connection

SWEEP_TASK = "reports.sweep"
UPKEEP_QUEUE = "upkeep"
SEEN_KEY = "reports.worker-seen"
SEEN_FOR_S = 60
PULSE_KEPT_S = 600

# Of the publishing connection: a broker that is down, paused or silent costs one second at most.
BROKER_LIMITS = {
    "socket_connect_timeout": 0.5,
    "socket_timeout": 0.5,
    "retry_on_timeout": False,
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}
WAITING_IDS = 10_000
MOST_AT_ONCE = 100
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0
FLUSH_S = 1.0

Answer = TypeVar("Answer")
logger = logging.getLogger(__name__)


class Publisher:
    """One process's way to the broker: a kept connection and a thread that feeds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._pattern: Pattern | None = None
        self._waiting: queue.Queue[UUID] = queue.Queue(WAITING_IDS)
        self._thread: threading.Thread | None = None
        self._was_reached = True

    def publish(self, job_id: UUID) -> bool:
        """Publish now, within about a second. False: the broker did not take it."""

        return self.publish_all([job_id])

    def publish_all(self, job_ids: list[UUID]) -> bool:
        """The same for several, with one command. False: the broker took none of them."""

        def send(channel: Any) -> bool:
            if self._pattern is None:
                self._pattern = Pattern(channel)
            channel.client.lpush(JOBS_QUEUE, *map(self._pattern.of, job_ids))
            return True

        began_ns = traces.now()
        was_taken = self._ask(send) or False
        for job_id in job_ids:
            events.published(job_id, was_taken=was_taken, began_ns=began_ns)
        return was_taken

    def pulse(self, queue_name: str) -> bool:
        """Send an empty message to the caller's own queue. False: the broker did not take it."""

        def send(channel: Any) -> bool:
            producer = channel.connection.client.Producer(channel)
            producer.publish({}, exchange="", routing_key=queue_name, serializer="json")
            # What a killed worker leaves behind is gone soon.
            channel.client.expire(queue_name, PULSE_KEPT_S)
            return True

        return self._ask(send) or False

    def waiting(self) -> int | None:
        """How many messages wait in the queue of jobs. None: the broker did not say."""
        return self._ask(lambda channel: int(channel.queue_declare(JOBS_QUEUE).message_count))

    def _ask(self, question: Callable[[Any], Answer]) -> Answer | None:
        with self._lock:
            try:
                answer = question(self._connect().default_channel)
            except (KombuError, OperationalError, RedisError, OSError) as error:
                self._drop_connection()
                self._say(reached=False, why=type(error).__name__)
                return None
            self._say(reached=True)
            return answer

    def publish_soon(self, job_id: UUID) -> None:
        """Publish off the caller's thread; beyond a bound the id is left to the sweep."""
        try:
            self._waiting.put_nowait(job_id)
        except queue.Full:
            logger.warning("job %s left to the sweep: too many ids wait for the broker", job_id)
        if self._thread is None:
            self._start()

    def flush(self) -> None:
        """Give waiting ids a moment to leave before the process ends."""
        give_up_at = time.monotonic() + FLUSH_S
        while (
            self._was_reached and self._waiting.unfinished_tasks and time.monotonic() < give_up_at
        ):
            time.sleep(0.01)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
                self._thread.start()
                atexit.register(self.flush)

    def _run(self) -> None:
        while True:
            job_ids = [self._waiting.get()]
            with suppress(queue.Empty):
                while len(job_ids) < MOST_AT_ONCE:
                    job_ids.append(self._waiting.get_nowait())
            try:
                self._publish_at_last(job_ids)
            except Exception as error:  # noqa: BLE001  # the edge: the next id must leave
                log_without_values(error, f"{len(job_ids)} jobs left to the sweep")
            for _ in job_ids:
                self._waiting.task_done()

    def _publish_at_last(self, job_ids: list[UUID]) -> None:
        pause_s = FIRST_PAUSE_S
        while not self.publish_all(job_ids):
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = current_app.connection_for_write(transport_options=BROKER_LIMITS)
        return self._connection

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _say(self, *, reached: bool, why: str = "") -> None:
        if reached != self._was_reached:
            self._was_reached = reached
            if reached:
                logger.info("the broker takes messages again")
            else:
                logger.warning("the broker takes no messages (%s); jobs wait for the sweep", why)


_publisher = Publisher()
publish = _publisher.publish
pulse = _publisher.pulse
waiting = _publisher.waiting
publish_soon = _publisher.publish_soon
