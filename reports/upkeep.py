"""The part of a worker that never waits for a free slot: its sweep.

It has a thread and a consumer of its own beside those of the jobs, so a hundred slow calls cannot
hold it up. Beat's message wakes it; without beat, or without a broker, it wakes by itself.
"""

from __future__ import annotations

import threading
from typing import Any

from celery import bootsteps
from django.conf import settings
from django.db import connections
from kombu import Consumer, Queue

from reports import dispatch, sweep
from reports.logs import log_without_values

wake = threading.Event()


class Sweeper(bootsteps.StartStopStep):
    """Sweeps when the worker starts, when beat says so, and by itself when beat is silent."""

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self, parent: Any) -> None:
        """Begin with a sweep: a worker that starts may be the first after a crash."""
        wake.set()
        self._thread.start()

    def stop(self, parent: Any) -> None:
        """Let a sweep that is under way end."""
        self._is_stopping.set()
        wake.set()
        self._thread.join(timeout=settings.SWEEP_INTERVAL_S)

    def _run(self) -> None:
        while True:
            wake.wait(timeout=2 * settings.SWEEP_INTERVAL_S)
            wake.clear()
            if self._is_stopping.is_set():
                return
            try:
                sweep.sweep()
            except Exception as error:  # noqa: BLE001  # the edge: the next sweep must come
                log_without_values(error, "the sweep broke off; the next one tries again")
            finally:
                connections.close_all()


class UpkeepConsumer(bootsteps.ConsumerStep):
    """Takes beat's messages on a channel of its own, whatever the jobs' channel has reserved."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def get_consumers(self, channel: Any) -> list[Consumer]:
        """One consumer of the upkeep queue."""
        return [
            Consumer(
                channel,
                queues=[Queue(dispatch.UPKEEP_QUEUE)],
                on_message=_on_message,
                accept=["json"],
            )
        ]


def _on_message(message: Any) -> None:
    message.ack()
    wake.set()
