"""The safety net: fail the lost, expire the late, publish what the broker forgot, erase the old.

Every row is moved by its own conditional UPDATE, so any number of sweeps may run at once. What they
read beforehand only says where to look.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import Max

from reports import dispatch, events, retention, transitions
from reports.logs import log_without_values
from reports.models import ReportJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports.models import JobQuerySet

# Of one pass; what is left is the next sweep's, so that none runs for ever.
MOST_ROWS = 5000
LONGEST_PART = 4  # of QUEUE_TTL_S: the pause between two passes over one row grows no longer
# A backlog that the broker still holds is not published again until a row waited this many times,
# or a younger one runs: the queue keeps its order, so the message of the older one is gone.
TRUSTED_PASSES = 5


@dataclass(slots=True)
class Swept:
    """How many rows a sweep moved, by what it did to them."""

    lost: int = 0
    expired: int = 0
    republished: int = 0
    erased: int = 0
    deleted: int = 0


def sweep() -> Swept:
    """Run one pass. Raises OperationalError or InterfaceError when the database is away."""
    began = time.monotonic()
    swept = Swept(
        lost=_each(ReportJob.objects.lease_expired(), transitions.lose),
        # One after the other: for both at once PostgreSQL reads the whole queue.
        expired=_each(ReportJob.objects.too_old(), transitions.expire)
        + _each(ReportJob.objects.too_late(), transitions.expire),
        republished=_republish(),
        erased=retention.erase_old(),
        deleted=retention.delete_old(),
    )
    events.swept(asdict(swept), took_s=time.monotonic() - began)
    return swept


def _each(rows: JobQuerySet, move: Callable[[ReportJob], bool]) -> int:
    moved = 0
    for job in rows[:MOST_ROWS]:
        try:
            moved += move(job)
        except (OperationalError, InterfaceError):
            raise
        except Exception as error:  # noqa: BLE001  # the edge: one row must not stop the others
            log_without_values(error, f"job {job.pk} could not be swept")
    return moved


def _republish() -> int:
    due = list(ReportJob.objects.unpublished().order_by("publish_again_at")[:MOST_ROWS])
    if not due:
        return 0
    waiting = dispatch.waiting()
    if waiting is None:
        return 0
    is_backlog = waiting >= ReportJob.objects.queued().count()
    youngest = (
        ReportJob.objects.running().filter(republished=0).aggregate(at=Max("created_at"))["at"]
    )
    published = 0
    # Rows whose lease ran out meanwhile are the next pass's: it must not wait for thousands here.
    give_up_at = time.monotonic() + settings.SWEEP_INTERVAL_S
    for job in due:
        if published and time.monotonic() > give_up_at:
            break
        again_after_s = min(
            settings.REDISPATCH_AFTER_S * 2.0 ** (job.republished + 1),
            settings.QUEUE_TTL_S / LONGEST_PART,
        )
        if not transitions.republish(job, again_after_s=again_after_s):
            continue
        is_overtaken = youngest is not None and job.created_at < youngest
        if is_backlog and not is_overtaken and job.republished < TRUSTED_PASSES:
            continue
        if not dispatch.publish(job.pk):
            break
        events.republished(job.pk)
        published += 1
    return published
