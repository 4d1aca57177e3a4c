"""The Celery entry points; a message holds a job id and nothing else."""

from uuid import UUID

from celery import current_app, shared_task

from reports import dispatch, runner, sweep as sweeping, upkeep

current_app.steps["worker"].add(upkeep.Sweeper)
current_app.steps["consumer"].add(upkeep.UpkeepConsumer)


@shared_task(name=dispatch.RUN_TASK)
def run(job_id: str) -> None:
    """Run one job."""
    runner.run(UUID(job_id))


@shared_task(name=dispatch.SWEEP_TASK)
def sweep() -> None:
    """Sweep once. Workers sweep on beat's message without this; it serves `celery call`."""
    sweeping.sweep()
