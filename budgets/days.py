"""A day of one user or of all, for those who only look: reading gives nobody the right to move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import BigIntegerField, Count, Sum, Value
from django.db.models.functions import Coalesce

from budgets.models import InferenceBudget
from budgets.rows import UtcToday

if TYPE_CHECKING:
    from budgets.envelope import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOfAll:
    """The present UTC day of all users who reserved something in it."""

    users: int
    spent_tokens: int
    reserved_tokens: int


def today(user_id: int) -> Envelope:
    """The user's present UTC day."""
    return InferenceBudget.objects.today(user_id)


def of_all() -> DayOfAll:
    """Sums over the budgets of today; one statement."""
    of_today = InferenceBudget.objects.filter(day_utc=UtcToday())
    spent, reserved = (_sum(column) for column in ("spent_tokens", "reserved_tokens"))
    return DayOfAll(
        **of_today.aggregate(users=Count("pk"), spent_tokens=spent, reserved_tokens=reserved)
    )


def _sum(column: str) -> Coalesce:
    return Coalesce(Sum(column), Value(0), output_field=BigIntegerField())
