"""What the living do for webhooks and for streams after a crash, and whether it was enough."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import redis
from django.conf import settings
from django.db.models.functions import Now

from reports import hints
from reports.models import TERMINAL, ReportJob
from streams import marks
from webhooks import loops, outbox
from webhooks.models import Off, State, WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from streams.marks import Mark
    from tests.support.clients import Api

SEEN = 3  # characters of the text, by a client whose connection was lost with the worker


def tell() -> None:
    """A turn of a worker's messenger, with its attempts one after the other."""
    outbox.note()
    for delivery_id in WebhookDelivery.objects.due().values_list("pk", flat=True):
        loops.deliver(delivery_id)


def tell_the_rest() -> Iterator[str]:
    """Let all waits and leases end, twice; what is not as it should be then."""
    for _ in range(2):
        WebhookDelivery.objects.exclude(next_try_at=None).update(
            next_try_at=Now() - timedelta(seconds=1)
        )
        tell()
    deliveries = list(WebhookDelivery.objects.all())
    for endpoint in WebhookEndpoint.objects.all():
        told = [each.job_id for each in deliveries if each.endpoint_id == endpoint.pk]
        if told != list(ReportJob.objects.terminal().values_list("pk", flat=True)):
            yield f"told of {told}"
        ending = State.FAILED if endpoint.off == Off.GONE else State.DELIVERED
        yield from (f"{each} after all" for each in deliveries if each.state != ending)


@dataclass(frozen=True, slots=True)
class Watchers:
    """Clients that had seen a part of a text when the worker died."""

    seen: dict[UUID, Mark]

    @classmethod
    def of_now(cls) -> Watchers:
        """One for each job that runs."""
        running = ReportJob.objects.running()
        return cls({job.pk: marks.Mark(marks.state_of(job), SEEN) for job in running})

    def come_back(self, api: Api) -> Iterator[str]:
        """Each is told the end, and finds no text that outlives its job."""
        for job in ReportJob.objects.filter(pk__in=self.seen, status__in=TERMINAL):
            answer = api.get(f"/reports/{job.pk}/events", Last_Event_ID=str(self.seen[job.pk]))
            if f'"status":"{job.status}"' not in answer.content.decode():
                yield f"came back to {answer.content.decode()} where it is {job.status}"
        hints._teller._waiting.join()
        longest_s = settings.INFERENCE_TIMEOUT_S + settings.LEASE_GRACE_S
        with redis.Redis.from_url(settings.REDIS_URL) as broker:
            for job in ReportJob.objects.all():
                left_s = broker.ttl(hints.text_key(job.pk))  # -1: for ever; -2: it is gone
                # Whoever died behind the last commit leaves it to the end of the lease.
                if left_s != -2 and (job.pk in self.seen or not 0 <= left_s <= longest_s):
                    yield f"the text of a job that is {job.status} stays for {left_s} s"
