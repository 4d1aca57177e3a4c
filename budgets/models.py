"""The budget row of a user, what groups allow, and who changed it. `reserving` moves its tokens."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.db.models import F, Max, OuterRef, Q, Subquery
from django.db.models.functions import Least
from django.db.models.lookups import GreaterThanOrEqual

from budgets.envelope import Envelope, rfc3339
from budgets.rows import Now, UtcToday

if TYPE_CHECKING:
    from django.contrib.auth.models import User  # noqa: F401  # named by the field's type

BIG = models.BigIntegerField()


class BudgetQuerySet(models.QuerySet["InferenceBudget"]):
    """Reads of budgets, and the statements that move one."""

    def forgive(self, user_id: int) -> int | None:
        """Let today begin again: what was charged counts no more, what is reserved still does.

        The tokens that count no more. None: nothing was charged today, and nothing was written.
        """
        charged = self.filter(
            user_id=user_id, day_utc=UtcToday(), spent_tokens__gt=F("reserved_tokens")
        )
        before = charged.select_for_update().first()  # holds the row until the transaction ends
        if before is None:
            return None
        charged.update(
            forgiven_tokens=F("forgiven_tokens") + F("spent_tokens") - F("reserved_tokens"),
            spent_tokens=F("reserved_tokens"),
        )
        return before.spent_tokens - before.reserved_tokens

    def with_allowance(self) -> BudgetQuerySet:
        """Read together with what the user's groups allow, and with today's date."""
        return self.annotate(allowance=granted_to("user_id"), today=UtcToday())

    def today(self, user_id: int) -> Envelope:
        """The user's present day."""
        row = self.filter(user_id=user_id).with_allowance().first()
        return unspent(user_id) if row is None else row.envelope()


def granted_to(user_id: str) -> Subquery:
    """The largest allowance among the groups of the user in a column; null without one."""
    granted = GroupAllowance.objects.filter(group__user=OuterRef(user_id))
    return Subquery(granted.order_by("-daily_tokens").values("daily_tokens")[:1])


def unspent(user_id: int) -> Envelope:
    """The day of a user who has no row yet: nothing is spent of what such a row would allow."""
    granted = GroupAllowance.objects.filter(group__user=user_id)
    largest = granted.aggregate(largest=Max("daily_tokens"))["largest"]
    return Envelope(
        daily_tokens=settings.DAILY_TOKEN_CAP if largest is None else largest,
        spent_tokens=0,
        day_utc=datetime.now(UTC).date(),
    )


class InferenceBudget(models.Model):
    """One user's daily allowance of tokens and what is spent of it."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="inference_budget",
    )
    daily_tokens = models.BigIntegerField(help_text="Tokens a UTC day.")
    is_own = models.BooleanField(
        default=True,
        db_default=True,
        verbose_name="set on the user",
        help_text="Otherwise the largest allowance of the user's groups goes before.",
    )
    spent_tokens = models.BigIntegerField(
        default=0, help_text="Settled and reserved tokens of the day below."
    )
    reserved_tokens = models.BigIntegerField(
        default=0, db_default=0, help_text="The part of them that active jobs reserve."
    )
    forgiven_tokens = models.BigIntegerField(
        default=0, db_default=0, help_text="Charged on that day, and taken off by an operator."
    )
    active_jobs = models.IntegerField(default=0, help_text="Jobs queued or running now.")
    day_utc = models.DateField(
        db_default=UtcToday(), help_text="The UTC day that the spent tokens belong to."
    )

    objects = BudgetQuerySet.as_manager()

    class Meta:
        # Today's tokens of all users; a row changes its day once a day, and else stays in place.
        indexes: ClassVar = [models.Index("day_utc", name="inferencebudget_day_idx")]
        # One for all four: PostgreSQL reads each anew for each row that is written.
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=GreaterThanOrEqual(
                    Least("daily_tokens", "spent_tokens", "reserved_tokens", "active_jobs"), 0
                ),
                name="inferencebudget_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"budget of user {self.pk}"

    def envelope(self) -> Envelope:
        """Today as this row, read `with_allowance`, knows it."""
        read = vars(self)
        return self.envelope_of(read["today"], allowance=read["allowance"])

    def envelope_of(self, today: date, *, allowance: int | None) -> Envelope:
        """Today, given what the user's groups allow; after the row's own day nothing is spent."""
        return Envelope(
            daily_tokens=self.daily_tokens if self.is_own or allowance is None else allowance,
            spent_tokens=0 if self.day_utc < today else self.spent_tokens,
            day_utc=today,
        )


class GroupAllowance(models.Model):
    """The daily tokens of a group's members, as far as none are set on the user."""

    group = models.OneToOneField(
        Group, on_delete=models.CASCADE, primary_key=True, related_name="token_allowance"
    )
    daily_tokens = models.BigIntegerField(
        help_text="Tokens a UTC day. Of several groups the largest counts."
    )

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(daily_tokens__gte=0), name="groupallowance_daily_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"allowance of group {self.pk}"


class CapChange(models.Model):
    """Who changed how much somebody may spend, from what to what, when and why. Never edited."""

    class What(models.TextChoices):
        """What was changed; `was` and `became` are its tokens."""

        CAP = "cap", "cap of a user"  # None: it was not set on the user
        DEFAULT = "default", "back to the default"
        RESET = "reset", "today begun again"  # the tokens spent today
        GROUP = "group", "allowance of a group"  # None: the group had none, or has none now

    at = models.DateTimeField(db_default=Now())
    what = models.CharField(max_length=8, choices=What)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    group = models.ForeignKey(
        Group, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    name = models.CharField(max_length=150, help_text="The user's or group's at the time.")
    was = models.BigIntegerField(null=True)
    became = models.BigIntegerField(null=True)
    why = models.CharField(max_length=500)
    by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        db_index=False,
    )
    by_name = models.CharField(max_length=150)

    def __str__(self) -> str:
        return f"{self.what} of {self.name} at {rfc3339(self.at)}"
