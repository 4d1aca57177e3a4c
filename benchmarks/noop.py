"""Bare Celery: a task that does nothing, to know what the framework alone could carry."""

import os

from celery import Celery

QUEUE = "noop"

app = Celery(QUEUE, broker=os.environ.get("REDIS_URL"))
app.conf.update(
    task_ignore_result=True,
    task_default_queue=QUEUE,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
)


@app.task(name=QUEUE)
def noop(_job_id: str) -> None:
    """Nothing."""
