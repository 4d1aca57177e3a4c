"""How operators find jobs among millions: each list, filter and search is read by an index."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, cast

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model

from reports.models import CANONICAL_UUID, Status

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.db.models import QuerySet
    from django.http import HttpRequest

    from reports.models import JobQuerySet, ReportJob

DAYS_OFFERED = 8
# Days that an id can carry.
FIRST_DAY, LAST_DAY = date(1970, 1, 2), date(9998, 12, 31)


class KnownChoices(admin.ChoicesFieldListFilter):
    """A filter by the words that a column can hold, and by no other."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> QuerySet[ReportJob]:
        """The rows with that word. Raises IncorrectLookupParameters for another."""
        known = {value for value, _ in self.field.flatchoices}
        if not known.issuperset(self.lookup_val or ()):
            raise IncorrectLookupParameters
        rows = super().queryset(request, queryset)
        return queryset if rows is None else rows


class CodeFilter(KnownChoices):
    """By error code; only failures have one, and the index of failures is small."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> QuerySet[ReportJob]:
        """The failures with that code."""
        rows = super().queryset(request, queryset)
        return rows.filter(status=Status.FAILED) if self.lookup_val else rows


class DayFilter(admin.SimpleListFilter):
    """By the UTC day whose budget carries the reservation; any day in the address will do."""

    title = "day (UTC)"
    parameter_name = "day"

    def lookups(
        self, request: HttpRequest, model_admin: ModelAdmin[ReportJob]
    ) -> list[tuple[str, str]]:
        """The last few days, and the one that is asked for."""
        today = datetime.now(UTC).date()
        days = [str(today - timedelta(days=ago)) for ago in range(DAYS_OFFERED)]
        asked = self.value()
        return [(day, day) for day in ([*days, asked] if asked and asked not in days else days)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> QuerySet[ReportJob]:
        """The jobs of that day. Raises IncorrectLookupParameters for what is no day."""
        value = self.value()
        return queryset if value is None else cast("JobQuerySet", queryset).of_day(_day(value))


def search(queryset: QuerySet[ReportJob], term: str) -> QuerySet[ReportJob]:
    """The job with this id, else this user's jobs, else those with this key."""
    if CANONICAL_UUID.fullmatch(term) and queryset.filter(pk=term).exists():
        return queryset.filter(pk=term)
    users = get_user_model().objects
    user_id = users.filter(username=term).values_list("pk", flat=True).first()
    if user_id is not None:
        return queryset.filter(user_id=user_id).order_by("-created_at", "-pk")
    # The index of keys begins with the user: a look for each is far less than a pass over jobs.
    return queryset.filter(user_id__in=users.values("pk"), idempotency_key=term)


def _day(value: str) -> date:
    try:
        day = date.fromisoformat(value)
    except ValueError:
        raise IncorrectLookupParameters from None
    if not FIRST_DAY <= day <= LAST_DAY:
        raise IncorrectLookupParameters
    return day
