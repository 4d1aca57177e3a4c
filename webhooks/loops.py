"""The part of a worker that delivers: threads of its own, which no slow model call holds up.

The rows are the queue. A loop looks once a second for endings to tell of and for attempts that are
due, so that messages leave within a second or two, also while the broker is down.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, ClassVar

from django.db import InterfaceError, OperationalError, connections

from reports.logs import log_without_values
from reports.upkeep import Loop
from webhooks import deliveries, outbox, sending
from webhooks.models import WebhookDelivery

if TYPE_CHECKING:
    from uuid import UUID

EVERY_S = 1.0
FAR_BACK_EVERY_S = 600.0
# Of one worker process; a receiver that hangs takes a few of them and leaves the rest to others.
MOST_AT_ONCE = 10
MOST_OF_ENDPOINT = 2
LOOKED_AT = 100


logger = logging.getLogger(__name__)


class Messenger(Loop):
    """Tells endpoints of endings, a few at a time."""

    every_s = EVERY_S
    looked_far_back_at: ClassVar[float | None] = None
    is_cut_off: ClassVar[bool] = False

    def turn(self) -> None:
        """Find what is to be told, and begin the attempts that are due."""
        try:
            self._tell()
        except (OperationalError, InterfaceError):
            if not self.is_cut_off:  # it comes every second, and says so once
                logger.warning("the database is away; webhooks wait")
            Messenger.is_cut_off = True
        else:
            Messenger.is_cut_off = False

    def _tell(self) -> None:
        if self._is_time_to_look_far_back():
            outbox.note(back=outbox.FAR_BACK)
            outbox.delete_old()
        while outbox.note() == outbox.MOST_ROWS:
            pass
        crew.begin_due(then=self.wake.set)

    def _is_time_to_look_far_back(self) -> bool:
        now = time.monotonic()
        last = self.looked_far_back_at
        if last is not None and now - last < FAR_BACK_EVERY_S:
            return False
        Messenger.looked_far_back_at = now
        return True


class Crew:
    """The attempts that this process is making."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: Counter[UUID] = Counter()
        self._in_hand: set[UUID] = set()

    def count(self) -> int:
        """How many there are now."""
        with self._lock:
            return len(self._in_hand)

    def begin_due(self, *, then: object = None) -> int:
        """Begin what is due and fits; how many. `then` is called as each ends."""
        with self._lock:
            free = MOST_AT_ONCE - len(self._in_hand)
            full = [pk for pk, count in self._busy.items() if count >= MOST_OF_ENDPOINT]
        if free <= 0:
            return 0
        due = WebhookDelivery.objects.due().exclude(endpoint__in=full).order_by("next_try_at")
        begun = 0
        for delivery_id, endpoint_id in due.values_list("pk", "endpoint_id")[:LOOKED_AT]:
            if begun < free and self._take(delivery_id, endpoint_id):
                begun += 1
                names = (delivery_id, endpoint_id, then)
                threading.Thread(target=self._run, args=names, name="webhook", daemon=True).start()
        return begun

    def _take(self, delivery_id: UUID, endpoint_id: UUID) -> bool:
        with self._lock:
            if self._busy[endpoint_id] >= MOST_OF_ENDPOINT or delivery_id in self._in_hand:
                return False
            self._busy[endpoint_id] += 1
            self._in_hand.add(delivery_id)
            return True

    def _run(self, delivery_id: UUID, endpoint_id: UUID, then: object) -> None:
        try:
            deliver(delivery_id)
        except Exception as error:  # noqa: BLE001  # the edge: the lease ends, and another tries
            log_without_values(error, f"delivery {delivery_id} broke off")
        finally:
            connections.close_all()
            with self._lock:
                self._busy -= Counter([endpoint_id])
                self._in_hand.discard(delivery_id)
            if callable(then):
                then()


crew = Crew()


def deliver(delivery_id: UUID) -> bool:
    """Make one attempt. False: it was not ours to make, or another has begun meanwhile."""
    attempt = deliveries.begin(delivery_id)
    if attempt is None:
        return False
    connections.close_all()  # none is held while the receiver thinks
    return deliveries.finish(attempt, sending.send(attempt))
