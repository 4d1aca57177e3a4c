"""How jobs ended in the last hour, read by the index of endings and never beyond a bound."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Count, Max
from django.db.models.functions import TruncMinute
from django.utils import timezone

from operations.charts import Chart, Series
from reports.errors import ErrorCode
from reports.models import ReportJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reports.models import JobQuerySet

STEP = timedelta(minutes=5)
STEPS = 12
MOST_ENDINGS = 100_000
PROVIDER = "provider_"
UNWELL_SHARE = 0.5
SUCCEEDED = ""
# What an ending says, and about whom; the patterns are those of `charts`.
KINDS = {
    "succeeded": "solid",
    "failed at the provider": "hatch",
    "failed on our side": "cross",
    "cancelled": "dots",
}


@dataclass(frozen=True, slots=True)
class Minute:
    """The endings of one minute that share an error code ("": they succeeded)."""

    at: datetime
    error_code: str
    jobs: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Hour:
    """The endings since an instant; `is_cut` where an hour had more than are read."""

    since: datetime
    minutes: list[Minute]
    is_cut: bool

    @property
    def codes(self) -> list[tuple[str, int]]:
        """How many jobs failed by each code, the most frequent first."""
        return [(code, jobs) for code, jobs in self._by_code().most_common() if code != SUCCEEDED]

    @property
    def succeeded(self) -> int:
        """How many jobs succeeded."""
        return self._by_code()[SUCCEEDED]

    @property
    def provider_failures(self) -> int:
        """How many jobs failed at the provider."""
        return sum(jobs for code, jobs in self.codes if code.startswith(PROVIDER))

    @property
    def calls(self) -> int:
        """How many jobs asked the provider, as far as their endings tell."""
        return self.succeeded + self.provider_failures

    @property
    def failed_percent(self) -> float:
        """How many of a hundred calls failed at the provider."""
        return 100 * self.provider_failures / self.calls if self.calls else 0.0

    @property
    def last_success_at(self) -> datetime | None:
        """When the last job of the hour succeeded."""
        moments = [minute.last_at for minute in self.minutes if minute.error_code == SUCCEEDED]
        return max(moments, default=None)

    @property
    def health(self) -> str:
        """The provider's health in a word."""
        if not self.calls:
            return "not asked"
        if not self.succeeded:
            return "no answer"
        share = self.provider_failures / self.calls
        return "unwell" if share >= UNWELL_SHARE else "well"

    def chart(self) -> Chart:
        """The endings of each five minutes, by kind."""
        starts = [self.since + STEP * i for i in range(STEPS)]
        counts: Counter[tuple[int, str]] = Counter()
        for minute in self.minutes:
            place = min(max(0, (minute.at - self.since) // STEP), STEPS - 1)
            counts[place, kind_of(minute.error_code)] += minute.jobs
        return Chart(
            id="endings",
            title="Jobs that ended, by five minutes",
            labels=[f"{start:%H:%M}" for start in starts],
            series=[
                Series(kind, fill, [counts[i, kind] for i in range(STEPS)])
                for kind, fill in KINDS.items()
            ],
        )

    def _by_code(self) -> Counter[str]:
        sums: Counter[str] = Counter()
        for minute in self.minutes:
            sums[minute.error_code] += minute.jobs
        return sums


def kind_of(error_code: str) -> str:
    """Which of KINDS an ending is."""
    succeeded, provider, ours, cancelled = KINDS
    if error_code == SUCCEEDED:
        return succeeded
    if error_code == ErrorCode.CANCELLED:
        return cancelled
    return provider if error_code.startswith(PROVIDER) else ours


def read() -> Hour:
    """The last hour in whole steps, the present one included; two statements."""
    now = timezone.now()
    minutes_into_step = timedelta(minutes=now.minute) % STEP
    start = now.replace(second=0, microsecond=0) - minutes_into_step - STEP * (STEPS - 1)
    ended = ReportJob.objects.filter(finished_at__gte=start)
    newest = ended.order_by("-finished_at").values_list("finished_at", flat=True)
    edge = newest[MOST_ENDINGS : MOST_ENDINGS + 1].first()
    if edge is not None:
        ended = ended.filter(finished_at__gt=edge)
    return Hour(start, list(_minutes(ended)), is_cut=edge is not None)


def _minutes(ended: JobQuerySet) -> Iterator[Minute]:
    minutes = ended.annotate(minute=TruncMinute("finished_at")).values("minute", "error_code")
    for group in minutes.order_by().annotate(jobs=Count("*"), last_at=Max("finished_at")):
        yield Minute(group["minute"], group["error_code"], group["jobs"], group["last_at"])
