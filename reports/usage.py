"""What users' jobs came to, day by day: over days from rows of their own, open ones from the jobs.

A day is closed once none of its jobs can still be active. Its sums outlive the jobs, which
KEY_RETENTION_DAYS may delete afterwards.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import BigIntegerField, Count, F, Max, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest

from reports import ids
from reports.models import ReportJob, UsageDay

if TYPE_CHECKING:
    from collections.abc import Iterator

    from django.db.models import QuerySet

BIG = BigIntegerField()
BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Sums over jobs; what active ones reserve is neither settled nor released yet."""

    jobs: int = 0
    reserved_tokens: int = 0
    settled_tokens: int = 0
    released_tokens: int = 0
    unclear_ends: int = 0
    unclear_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Both together."""
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in SUMS})


SUMS = tuple(field.name for field in fields(Usage))
OF_JOBS = {
    "jobs": Count("*"),
    "reserved_tokens": Sum("token_estimate"),
    "settled_tokens": Coalesce(Sum("settled_tokens"), Value(0), output_field=BIG),
    "released_tokens": Coalesce(
        Sum(Greatest(F("token_estimate") - F("settled_tokens"), Value(0), output_field=BIG)),
        Value(0),
        output_field=BIG,
    ),
    "unclear_ends": Count("pk", filter=Q(is_unclear=True)),
    "unclear_tokens": Coalesce(
        Sum("token_estimate", filter=Q(is_unclear=True)), Value(0), output_field=BIG
    ),
}
OF_DAYS = {name: Sum(name) for name in SUMS}


def by_day(since: date, until: date, *, user_id: int | None = None) -> dict[date, Usage]:
    """The sums of each day that has any, of all users or of one; `until` is included."""
    return _added(since, until, by="day_utc", user_id=user_id)


def by_user(since: date, until: date, *, most: int) -> dict[int, Usage]:
    """The sums of the users who were charged most in these days, the largest first."""
    found = _added(since, until, by="user_id")
    largest = sorted(found, key=lambda user_id: -found[user_id].settled_tokens)
    return {user_id: found[user_id] for user_id in largest[:most]}


def close_days() -> int:
    """Write down the days that are over for good; how many. Any number of callers may do so."""
    count = 0
    day = _next_day(closed_until())
    while day is not None and _is_over(day):
        rows = [
            UsageDay(day_utc=day, user_id=user_id, **asdict(usage))
            for user_id, usage in _grouped(ReportJob.objects.of_day(day), OF_JOBS, by="user_id")
        ]
        with transaction.atomic():  # whole or not at all: the last day that is there is closed
            UsageDay.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)
        count += 1
        day = _next_day(day)
    return count


def closed_until() -> date | None:
    """The last day that was written down; None while there is none."""
    last: date | None = UsageDay.objects.aggregate(last=Max("day_utc"))["last"]
    return last


def _added(since: date, until: date, *, by: str, user_id: int | None = None) -> dict[Any, Usage]:
    whose = {} if user_id is None else {"user_id": user_id}
    jobs = ReportJob.objects.filter(**whose)
    closed = closed_until()
    over = UsageDay.objects.filter(day_utc__range=(since, until), **whose)
    found = dict(_grouped(over, OF_DAYS, by=by))
    before = since - ids.ONE_DAY
    day = _next_day(before if closed is None else max(closed, before))
    while day is not None and day <= until:
        for key, usage in _grouped(jobs.of_day(day), OF_JOBS, by=by):
            found[key] = found.get(key, Usage()) + usage
        day = _next_day(day)
    return found


def _grouped(rows: QuerySet[Any], sums: dict[str, Any], *, by: str) -> Iterator[tuple[Any, Usage]]:
    # Named apart from the columns, which the sums themselves need.
    named = {f"sum_{name}": expression for name, expression in sums.items()}
    for row in rows.order_by().values(by).annotate(**named).iterator(BATCH):
        yield row[by], Usage(**{name: row[f"sum_{name}"] for name in SUMS})


def _next_day(after: date | None) -> date | None:
    """The first day after another that has a job."""
    jobs = ReportJob.objects.order_by("pk")
    if after is not None:
        first, _ = ids.of_day(after + ids.ONE_DAY)
        jobs = jobs.filter(pk__gte=first, day_utc__gt=after)
    return jobs.values_list("day_utc", flat=True).first()


def _is_over(day: date) -> bool:
    """Whether no job of a day can be accepted or end any more."""
    midnight = datetime.combine(day + ids.ONE_DAY, time.min, tzinfo=UTC)
    is_past = datetime.now(UTC) > midnight + ids.CLOCKS_APART
    queued, running = ReportJob.objects.queued(), ReportJob.objects.running()
    return is_past and not any(rows.filter(day_utc__lte=day).exists() for rows in (queued, running))
