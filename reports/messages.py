"""The Celery message of a job. Celery writes one in a process, and then only its ids are exchanged.

Writing each anew was seven hundredths of what a web process did for its accepts.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any
from uuid import UUID, uuid4

from celery import current_app
from kombu.serialization import dumps
from kombu.utils import json

from reports.ids import uuid7

RUN_TASK = "reports.run"
JOBS_QUEUE = "jobs"
# What stands in the pattern for the ids of a message.
JOB, TASK, TAG = (str(UUID(int=number)) for number in (1, 2, 3))


class Pattern:
    """What lies on the queue for a job, with other ids."""

    def __init__(self, channel: Any) -> None:
        """Let Celery and kombu write one message, as far as the command that would send it."""
        task = current_app.amqp.as_task_v2(TASK, RUN_TASK, args=(JOB,), ignore_result=True)
        content_type, encoding, body = dumps(task.body, serializer="json")
        message = channel.prepare_message(
            body,
            content_type=content_type,
            content_encoding=encoding,
            headers=task.headers,
            properties={**task.properties, "delivery_mode": 2},
        )
        channel.basic_publish(message, exchange="", routing_key=JOBS_QUEUE, _publish_batch=self)

    def add(self, _command: str, _key: str, payload: str) -> None:
        """Take kombu's command instead of its pipeline for batches."""
        written = json.loads(payload)
        self._body = b64decode(written["body"]).decode()
        written["body"] = ""
        written["properties"]["delivery_tag"] = TAG
        self._envelope = json.dumps(written)

    def of(self, job_id: UUID) -> str:
        """The message of a job; its Celery id tells when it was written."""
        job = str(job_id)
        body = b64encode(self._body.replace(JOB, job).encode()).decode()
        envelope = self._envelope.replace('"body": ""', f'"body": "{body}"', 1)
        return envelope.replace(JOB, job).replace(TASK, str(uuid7())).replace(TAG, str(uuid4()))
