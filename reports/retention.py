"""What is kept too long: texts are erased, and later whole rows deleted.

It works in short transactions, the oldest first, and rests after each for as long as it took, for
a part of the time between two sweeps: a POST finds the database free. Sweeps that meet take other
rows than each other.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection, transaction

from reports import transitions, usage
from reports.models import ReportJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from reports.models import JobQuerySet

BATCH = 200
FIRST = 20  # then as many as take SHORT_S
SHORT_S = 0.25
# SQLite has one writer at a time, and who waits for a turn only looks for it now and then.
CALM_ON_SQLITE = 5
PART_OF_INTERVAL = 0.3  # for each of the two
DIGESTED = ("prompt", "openai_request")


def erase_old() -> int:
    """Erase texts after RETENTION_DAYS; of how many jobs. Raises what the database raises."""
    return _in_batches(lambda most: erase_some(ReportJob.objects.out_of_retention(), most=most))


def delete_old() -> int:
    """Delete rows after KEY_RETENTION_DAYS; how many. Raises what the database raises."""
    if not settings.KEY_RETENTION_DAYS:
        return 0
    # What their day came to is written down first.
    closed = usage.closed_until()
    if closed is None:
        return 0
    old = ReportJob.objects.out_of_key_retention().filter(day_utc__lte=closed)
    return _in_batches(lambda most: delete_some(old, most=most))


def erase_some(rows: JobQuerySet, *, most: int) -> int:
    """Erase the texts of the oldest of these terminal jobs, `most` of them; of how many."""
    with transaction.atomic():
        return transitions.erase_all(_taken(rows.only(*DIGESTED).order_by("finished_at"), most))


def delete_some(rows: JobQuerySet, *, most: int) -> int:
    """Delete the oldest of these jobs, `most` of them; how many."""
    with transaction.atomic():
        job_ids = [job.pk for job in _taken(rows.only("pk").order_by("pk"), most)]
        ReportJob.objects.filter(pk__in=job_ids).delete()
    return len(job_ids)


def _taken(rows: JobQuerySet, most: int) -> list[ReportJob]:
    """A batch of rows that nobody else holds, held until the transaction ends."""
    return list(rows.select_for_update(skip_locked=True)[:most])


def _in_batches(batch: Callable[[int], int]) -> int:
    moved, most = 0, min(FIRST, BATCH)
    calm = CALM_ON_SQLITE if connection.vendor == "sqlite" else 1
    give_up_at = time.monotonic() + settings.SWEEP_INTERVAL_S * PART_OF_INTERVAL
    while True:
        began = time.monotonic()
        some = batch(most)
        moved += some
        now = time.monotonic()
        if some < most or now > give_up_at:
            return moved
        time.sleep(calm * (now - began))
        most = min(BATCH, max(1, int(most * SHORT_S / calm / (now - began))))
