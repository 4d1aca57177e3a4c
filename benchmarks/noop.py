"""Bare Celery: a task that does nothing, to know what the framework alone could carry."""

import os

from celery import Celery

app = Celery("noop", broker=os.environ["REDIS_URL"])
app.conf.update(task_ignore_result=True, task_default_queue="noop", worker_prefetch_multiplier=1)
app.conf.update(task_acks_late=True)


@app.task(name="noop")
def noop(_job_id: str) -> None:
    """Nothing."""
