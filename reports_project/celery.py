"""The Celery app: jobs on one queue, upkeep on another, no results, at most one message a slot."""

import os

from celery import Celery
from celery.signals import setup_logging, worker_init
from kombu import Queue

from reports_project import settings, turns

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reports_project.settings")

app = Celery("reports_project")
# By itself and not by Django's settings as a whole: `celery report` prints what it was given.
app.conf.update(
    broker_url=settings.CELERY_BROKER_URL,
    task_queues=[Queue("jobs"), Queue("upkeep")],
    task_default_queue="jobs",
    task_ignore_result=True,
    result_backend=None,
    accept_content=["json"],
    task_serializer="json",
    # A message is acknowledged when its job has ended and a worker takes one for each free slot, so
    # that none waits behind a long call. A copy that comes twice finds its row claimed.
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    # A broker that blinks must not end a call that is being paid for.
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,  # for ever: a worker outlives its broker
    broker_channel_error_retry=True,  # also one that is full, and so refuses what a worker writes
    broker_transport_options={
        "socket_connect_timeout": 3,
        "socket_timeout": 10,
        "socket_keepalive": True,
        "health_check_interval": 10,
    },
    worker_enable_remote_control=False,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
    timezone="UTC",
    beat_schedule={
        "sweep": {
            "task": "reports.sweep",
            "schedule": settings.SWEEP_INTERVAL_S,
            "options": {"queue": "upkeep", "expires": settings.SWEEP_INTERVAL_S},
        }
    },
)
app.autodiscover_tasks()


@setup_logging.connect
def _leave_logging_alone(**_: object) -> None:
    """Django's settings have set it up; Celery would put handlers of its own beside ours."""


@worker_init.connect
def _take_short_turns(**_: object) -> None:
    """A worker has a thread for each slot."""
    turns.shorten()
