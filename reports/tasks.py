"""The Celery entry points; a message holds a job id and nothing else."""

from uuid import UUID

from celery import shared_task

from reports import dispatch, runner


@shared_task(name=dispatch.RUN_TASK)
def run(job_id: str) -> None:
    """Run one job."""
    runner.run(UUID(job_id))
