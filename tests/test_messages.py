"""The message of a job is the one that Celery would write, with other ids."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

from celery import current_app

from reports import dispatch, ids, messages

if TYPE_CHECKING:
    import redis


def test_a_message_is_celerys_own_but_for_its_ids(broker: redis.Redis):
    job_id, task_id = ids.uuid7(), ids.uuid7()
    with current_app.connection_for_write() as connection:
        current_app.send_task(
            messages.RUN_TASK,
            args=(str(job_id),),
            task_id=str(task_id),
            queue=messages.JOBS_QUEUE,
            connection=connection,
        )

    assert dispatch.publish(job_id)

    celerys, ours = taken(broker), taken(broker)
    assert ids.made_at(ours["headers"]["id"]) is not None
    assert without_ids(ours, job_id) == without_ids(celerys, job_id)


def test_each_message_has_ids_of_its_own(broker: redis.Redis):
    job_ids = [ids.uuid7() for _ in range(3)]

    assert dispatch._publisher.publish_all(job_ids)

    found = [taken(broker) for _ in job_ids]
    assert [argument(message) for message in found] == [str(job_id) for job_id in job_ids]
    assert len({message["headers"]["id"] for message in found}) == 3
    assert len({message["properties"]["delivery_tag"] for message in found}) == 3


def taken(broker: redis.Redis) -> dict[str, Any]:
    """The message that a worker would get next."""
    message: dict[str, Any] = json.loads(broker.rpop(messages.JOBS_QUEUE))  # type: ignore[arg-type]
    return message


def argument(message: dict[str, Any]) -> str:
    """The one argument of its task."""
    (found,), _, _ = json.loads(b64decode(message["body"]))
    return str(found)


def without_ids(message: dict[str, Any], job_id: object) -> dict[str, Any]:
    """What is the same in every message of this job; nobody replies, so where to is no matter."""
    headers, properties = message["headers"], message["properties"]
    assert headers["id"] == headers["root_id"] == properties["correlation_id"]
    assert argument(message) == str(job_id)
    for name in ("id", "root_id", "ignore_result"):
        del headers[name]
    for name in ("correlation_id", "delivery_tag", "reply_to"):
        del properties[name]
    return message
