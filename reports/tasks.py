"""The Celery entry points; a message holds a job id and nothing else."""

from typing import Any
from uuid import UUID

from celery import current_app, shared_task
from celery.exceptions import Reject

from reports import dispatch, ids, inflight, messages, runner, sweep as sweeping, upkeep

current_app.steps["worker"].update(
    {upkeep.Sweeper, upkeep.Bookkeeper, upkeep.Watcher, upkeep.Pulse, upkeep.Reporter}
)
current_app.steps["consumer"].add(upkeep.UpkeepConsumer)


@shared_task(name=messages.RUN_TASK, bind=True)
def run(self: Any, job_id: str) -> None:
    """Run one job; a worker that is shutting down hands it back to the queue."""
    if inflight.is_closed():
        raise Reject(requeue=True)
    runner.run(UUID(job_id), published_at=ids.made_at(self.request.id or ""))


@shared_task(name=dispatch.SWEEP_TASK)
def sweep() -> None:
    """Sweep once. Workers sweep on beat's message without this; it serves `celery call`."""
    sweeping.sweep()
