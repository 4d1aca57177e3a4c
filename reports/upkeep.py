"""The parts of a worker that never wait for a free slot: its sweep, its watch, its pulse, its end.

They have threads and a consumer of their own beside those of the jobs, so a hundred slow calls
cannot hold them up. Beat's message wakes the sweep; without beat or broker it wakes by itself.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from typing import Any, ClassVar
from uuid import uuid4

from celery import bootsteps
from celery.signals import worker_shutting_down
from django.conf import settings
from django.db import connections
from kombu import Consumer, Queue

from reports import dispatch, inflight, sweep, usage
from reports.logs import log_without_values
from telemetry import relay, traces

WATCH_EVERY_S = 1.0
BOOKS_EVERY_S = 600.0
PULSE_EVERY_S = 5.0
# A connection that lives on without a message is given this long, counted in pulses that went out.
UNHEARD_PULSES = 6

logger = logging.getLogger(__name__)


class Loop(bootsteps.StartStopStep):
    """A thread that does one thing again and again, from the start of the worker to its end."""

    every_s: ClassVar[float]

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.wake = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def start(self, parent: Any) -> None:
        """Begin at once: a worker that starts may be the first after a crash."""
        self.wake.set()
        self._thread.start()

    def stop(self, parent: Any) -> None:
        """Let a turn that is under way end."""
        self._is_stopping = True
        self.wake.set()
        self._thread.join(timeout=settings.SHUTDOWN_GRACE_S)

    def turn(self) -> None:
        """What is done again and again."""
        raise NotImplementedError

    def _run(self) -> None:
        while True:
            self.wake.wait(timeout=self.every_s)
            self.wake.clear()
            if self._is_stopping:
                return
            try:
                self.turn()
            except Exception as error:  # noqa: BLE001  # the edge: the next turn must come
                log_without_values(error, f"{self._thread.name} broke off; it tries again")
            finally:
                connections.close_all()


class Sweeper(Loop):
    """Sweeps when the worker starts, when beat says so, and by itself when beat is silent."""

    every_s = 2 * settings.SWEEP_INTERVAL_S
    running: ClassVar[set[Sweeper]] = set()

    def start(self, parent: Any) -> None:
        """Be there for beat's messages."""
        self.running.add(self)
        super().start(parent)

    def turn(self) -> None:
        """Sweep once."""
        sweep.sweep()


class Bookkeeper(Loop):
    """Writes down what each day came to, once it is over; apart from the sweep, which hurries."""

    every_s = BOOKS_EVERY_S

    def turn(self) -> None:
        """Close the days that are over."""
        if closed := usage.close_days():
            logger.info("closed the usage of %d days", closed)


class Watcher(Loop):
    """Ends the calls of cancelled jobs: nobody should pay for an answer that is dropped."""

    every_s = WATCH_EVERY_S

    def turn(self) -> None:
        """Look at all calls in flight with one statement."""
        if aborted := inflight.abort_lost():
            logger.info("ended %d calls whose jobs had moved on", aborted)


class Reporter(Loop):
    """Hands over what this worker counted, and tells that it lives."""

    every_s = relay.EVERY_S

    def start(self, parent: Any) -> None:
        """Begin with the traces too, where they are asked for."""
        traces.start("worker")
        super().start(parent)

    def turn(self) -> None:
        """Hand over once."""
        slots, calls = settings.WORKER_CONCURRENCY, inflight.count()
        relay.hand_over({"role": "worker", "worker_slots": slots, "calls_in_flight": calls})

    def stop(self, parent: Any) -> None:
        """Hand over what the last calls left."""
        super().stop(parent)
        relay.hand_over()


class Pulse(Loop):
    """Hears its own messages through the queue; a worker gone deaf ends for its supervisor.

    After some reconnects a Celery worker can live on and consume nothing (celery#8091, #10205).
    """

    every_s = PULSE_EVERY_S
    queue_name: ClassVar[str] = f"pulse.{uuid4()}"
    unheard: ClassVar[int] = 0

    def turn(self) -> None:
        """Send one pulse; after too many that went out and did not come back, end this worker."""
        if not dispatch.pulse(self.queue_name):
            return
        Pulse.unheard += 1
        if Pulse.unheard > UNHEARD_PULSES and not inflight.is_closed():
            logger.critical("this worker hears nothing from the broker any more; it ends")
            os.kill(os.getpid(), signal.SIGTERM)

    @classmethod
    def hear(cls, message: Any) -> None:
        """Tell the readiness check that a worker consumes."""
        cls.unheard = 0
        message.channel.client.set(dispatch.SEEN_KEY, int(time.time()), ex=dispatch.SEEN_FOR_S)


LOOPS = {Sweeper, Bookkeeper, Watcher, Pulse}


class UpkeepConsumer(bootsteps.ConsumerStep):
    """Takes beat's messages and the pulse on its own channel, whatever the jobs reserved."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def get_consumers(self, channel: Any) -> list[Consumer]:
        """One consumer of two queues."""
        queues = [Queue(dispatch.UPKEEP_QUEUE), Queue(Pulse.queue_name)]
        return [Consumer(channel, queues=queues, on_message=_on_message, accept=["json"])]


def _on_message(message: Any) -> None:
    message.ack()
    if message.delivery_info.get("routing_key") == Pulse.queue_name:
        Pulse.hear(message)
    else:
        for sweeper in Sweeper.running:
            sweeper.wake.set()


@worker_shutting_down.connect
def _end_in_time(**_: Any) -> None:
    """On SIGTERM take no new job, let calls finish, and fail at once what cannot in time."""
    inflight.close()
    threading.Thread(target=_abort_late_calls, name="shutdown", daemon=True).start()


def _abort_late_calls() -> None:
    time.sleep(settings.SHUTDOWN_GRACE_S)
    if aborted := inflight.abort_all():
        logger.warning("ended %d calls that could not finish before the shutdown", aborted)
