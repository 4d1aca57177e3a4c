"""Where Celery finds this app: its loop becomes a part of each worker; a task serves by hand."""

from uuid import UUID

from celery import current_app, shared_task

from webhooks import loops

current_app.steps["worker"].add(loops.Messenger)


@shared_task(name="webhooks.deliver")
def deliver(delivery_id: str) -> None:
    """Make one attempt of a delivery that is due. Workers need no message for it."""
    loops.deliver(UUID(delivery_id))
