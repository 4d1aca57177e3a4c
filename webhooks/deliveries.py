"""Every change of a delivery: each is one conditional UPDATE that says whether it moved the row.

An attempt is begun before it is sent and written down after it, so that a worker that dies between
the two leads to another attempt: a receiver gets each message at least once, under one id.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from django.db.models import F
from django.db.models.functions import Coalesce

from budgets.rows import Noted, Now, update_returning
from webhooks import telling
from webhooks.models import Off, State, WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from webhooks.sending import Sent

MINUTE, HOUR = 60, 3600
# Before each attempt, as Standard Webhooks recommends; after the last one nothing comes any more.
WAITS_S = (0, 5, 5 * MINUTE, 30 * MINUTE, *(hours * HOUR for hours in (2, 5, 10, 14, 20, 24)))
JITTER = 0.2  # of a wait, added at random
LONGEST_WAIT_S = 24 * HOUR  # however long a receiver asks for
LEASE = timedelta(seconds=30)  # twice what an attempt may take
FAILING_FOR = timedelta(days=5)
GONE = 410


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The right to make one attempt and to write down what became of it."""

    delivery_id: UUID
    claim_id: UUID
    endpoint_id: UUID
    number: int
    url: str
    webhook_id: str
    at: datetime
    why_not: str
    body: str = field(repr=False)
    seeds: tuple[str, ...] = field(repr=False)


def begin(delivery_id: UUID) -> Attempt | None:
    """Take a delivery that is due. None: another worker has it, or it is over."""
    rows = update_returning(
        WebhookDelivery.objects.due().filter(pk=delivery_id),
        state=State.RUNNING,
        claim_id=uuid4(),
        attempts=F("attempts") + 1,
        next_try_at=Now() + LEASE,
    )
    if not rows:
        return None
    delivery = rows[0]
    found = WebhookEndpoint.objects.select_related("user").annotate(now=Now())
    endpoint = found.filter(pk=delivery.endpoint_id).first()
    if endpoint is None or delivery.claim_id is None:  # deleted meanwhile, and its deliveries
        return None
    now: datetime = vars(endpoint)["now"]
    is_wanted = endpoint.is_enabled and endpoint.user.is_active
    return Attempt(
        delivery_id=delivery.pk,
        claim_id=delivery.claim_id,
        endpoint_id=endpoint.pk,
        number=delivery.attempts,
        url=endpoint.url,
        webhook_id=delivery.webhook_id,
        at=now,
        why_not="" if is_wanted else "The endpoint is switched off.",
        body=delivery.body,
        seeds=tuple(endpoint.seeds(now)),
    )


def finish(attempt: Attempt, sent: Sent) -> bool:
    """Write down what became of an attempt. False: its lease was over and another has begun."""
    endpoints = WebhookEndpoint.objects.filter(pk=attempt.endpoint_id)
    if sent.is_taken:
        moved = _write(attempt, sent, telling.DELIVERED, state=State.DELIVERED)
        endpoints.exclude(failing_since=None).update(failing_since=None)
        return moved
    wait_s = _wait_s(attempt.number, sent)
    if attempt.why_not:
        return _write(attempt, sent, telling.DEAD, state=State.FAILED)
    endpoints.update(failing_since=Coalesce("failing_since", Now()))
    if sent.http_status == GONE:
        _switch_off(attempt, Off.GONE)
    elif endpoints.filter(failing_since__lt=Now() - FAILING_FOR).exists():
        _switch_off(attempt, Off.FAILING)
    if wait_s is None or sent.http_status == GONE:
        return _write(attempt, sent, telling.DEAD, state=State.FAILED)
    return _write(attempt, sent, telling.PUT_OFF, state=State.PENDING, wait_s=wait_s)


def replay(delivery: WebhookDelivery) -> bool:
    """Send an ended delivery again, with all its attempts anew. False: it is not ended."""
    moved = (
        WebhookDelivery.objects.ended()
        .filter(pk=delivery.pk)
        .update(
            state=State.PENDING,
            attempts=0,
            next_try_at=Now(),
            finished_at=None,
            claim_id=None,
            history=Noted("history", "replayed"),
        )
    )
    return bool(moved)


def _write(
    attempt: Attempt, sent: Sent, outcome: str, *, state: State, wait_s: float | None = None
) -> bool:
    fenced = WebhookDelivery.objects.filter(
        pk=attempt.delivery_id, state=State.RUNNING, claim_id=attempt.claim_id
    )
    moved = fenced.update(
        state=state,
        claim_id=None,
        next_try_at=None if wait_s is None else Now() + timedelta(seconds=wait_s),
        finished_at=Now() if wait_s is None else None,
        http_status=sent.http_status,
        detail=sent.words,
        history=Noted("history", outcome, sent.words),
    )
    telling.attempted(attempt.delivery_id, outcome if moved else telling.DROPPED, sent.words)
    return bool(moved)


def _wait_s(number: int, sent: Sent) -> float | None:
    """Seconds until the next attempt. None: that was the last one."""
    if number >= len(WAITS_S):
        return None
    wait_s = WAITS_S[number] * (1 + random.uniform(0, JITTER))  # noqa: S311  # spreads, hides nothing
    return max(wait_s, min(sent.retry_after_s or 0, LONGEST_WAIT_S))


def _switch_off(attempt: Attempt, why: Off) -> None:
    on = WebhookEndpoint.objects.filter(pk=attempt.endpoint_id, off=Off.NOT)
    if on.update(off=why):
        telling.switched_off(attempt.endpoint_id, why.label)
