"""What is told of deliveries, to whoever runs the product: ids and words of ours, no address."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from telemetry import meters

if TYPE_CHECKING:
    from uuid import UUID

DELIVERED: Final = "delivered"
PUT_OFF: Final = "put_off"
DEAD: Final = "dead"
DROPPED: Final = "dropped"  # its lease was over: another attempt has it
OUTCOMES = (DELIVERED, PUT_OFF, DEAD, DROPPED)

logger = logging.getLogger("webhooks")


def begin() -> None:
    """Tell of what has not happened yet as 0: otherwise nobody sees the first one happen."""
    for outcome in OUTCOMES:
        meters.deliveries.labels(outcome)


def attempted(delivery_id: UUID, outcome: str, words: str) -> None:
    """One attempt is over."""
    meters.deliveries.labels(outcome).inc()
    level = logging.WARNING if outcome in (DEAD, DROPPED) else logging.INFO
    extra = {"event": f"webhook_{outcome}", "delivery_id": delivery_id}
    logger.log(level, "delivery %s %s: %s", delivery_id, outcome, words, extra=extra)


def switched_off(endpoint_id: UUID, why: str) -> None:
    """An endpoint gets nothing any more until its owner wants it again."""
    extra = {"event": "webhook_switched_off", "endpoint_id": endpoint_id}
    logger.warning("webhook %s switched off: %s", endpoint_id, why, extra=extra)
