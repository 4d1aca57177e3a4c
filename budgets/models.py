"""The budget row of a user and the two statements that move it: reserve, and settle or release."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import connections, models
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Greatest

from budgets.envelope import Envelope
from budgets.rows import UtcToday

if TYPE_CHECKING:
    from django.contrib.auth.models import User  # noqa: F401  # named by the field's type

BIG = models.BigIntegerField()

# One statement creates the first row of a user, starts a new day, or adds to the present one, so
# that parallel first requests cannot pass each other. A day never goes back: a caller that still
# believes in yesterday moves nothing.
RESERVE = """
INSERT INTO budgets_inferencebudget AS budget
       (user_id, daily_tokens, spent_tokens, active_jobs, day_utc)
SELECT %(user_id)s, %(cap)s, %(tokens)s, 1, %(day_utc)s
 WHERE %(tokens)s <= %(cap)s
    OR EXISTS (SELECT 1 FROM budgets_inferencebudget WHERE user_id = %(user_id)s)
    ON CONFLICT (user_id) DO UPDATE
   SET spent_tokens = excluded.spent_tokens
         + CASE WHEN budget.day_utc = excluded.day_utc THEN budget.spent_tokens ELSE 0 END,
       active_jobs = budget.active_jobs + 1,
       day_utc = excluded.day_utc
 WHERE budget.day_utc <= excluded.day_utc
   AND budget.active_jobs < %(max_active)s
   AND excluded.spent_tokens <= budget.daily_tokens
     - CASE WHEN budget.day_utc = excluded.day_utc THEN budget.spent_tokens ELSE 0 END
RETURNING daily_tokens, spent_tokens
"""


class BudgetQuerySet(models.QuerySet["InferenceBudget"]):
    """Reads of budgets, and the statements that move one."""

    def reserve(self, user_id: int, *, tokens: int, day_utc: date) -> Envelope | None:
        """Take tokens and one active job from the user's day, in one statement.

        None: it does not fit, the user has too many active jobs, or the row is a day further.
        Nothing was written then.
        """
        values: dict[str, int | date] = {
            "user_id": user_id,
            "tokens": tokens,
            "day_utc": day_utc,
            "cap": settings.DAILY_TOKEN_CAP,
            "max_active": settings.MAX_ACTIVE_JOBS_PER_USER,
        }
        with connections[self.db].cursor() as cursor:
            cursor.execute(RESERVE, values)
            row = cursor.fetchone()
        if row is None:
            return None
        return Envelope(daily_tokens=row[0], spent_tokens=row[1], day_utc=day_utc)

    def settle(self, user_id: int, *, day_utc: date, reserved: int, used: int) -> None:
        """End one active job: put the tokens really used in the place of those reserved that day.

        `used=0` releases, `used=reserved` keeps. Another day's count is never touched.
        """
        moved = Greatest(F("spent_tokens") + Value(used - reserved), Value(0), output_field=BIG)
        self.filter(user_id=user_id).update(
            spent_tokens=Case(
                When(day_utc=day_utc, then=moved), default=F("spent_tokens"), output_field=BIG
            ),
            active_jobs=Greatest(F("active_jobs") - 1, Value(0), output_field=BIG),
        )

    def today(self, user_id: int) -> Envelope:
        """The user's present day. A user without a row has the default allowance, unspent."""
        row = self.filter(user_id=user_id).annotate(today=UtcToday()).first()
        return unspent() if row is None else row.envelope(vars(row)["today"])


def unspent() -> Envelope:
    """The day of a user who has no row yet."""
    return Envelope(
        daily_tokens=settings.DAILY_TOKEN_CAP, spent_tokens=0, day_utc=datetime.now(UTC).date()
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
    spent_tokens = models.BigIntegerField(
        default=0, help_text="Settled and reserved tokens of the day below."
    )
    active_jobs = models.IntegerField(default=0, help_text="Jobs queued or running now.")
    day_utc = models.DateField(
        db_default=UtcToday(), help_text="The UTC day that the spent tokens belong to."
    )

    objects = BudgetQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(daily_tokens__gte=0), name="inferencebudget_daily_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(spent_tokens__gte=0), name="inferencebudget_spent_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(active_jobs__gte=0), name="inferencebudget_active_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"budget of user {self.pk}"

    def envelope(self, today: date) -> Envelope:
        """Today as this row knows it: of a day after the row's nothing is spent yet."""
        return Envelope(
            daily_tokens=self.daily_tokens,
            spent_tokens=0 if self.day_utc < today else self.spent_tokens,
            day_utc=today,
        )
