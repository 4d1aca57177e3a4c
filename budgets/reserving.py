"""The statements that move a user's tokens: reserve, and settle or release."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import Case, F, Value, When
from django.db.models.functions import Greatest

from budgets.compiled import Given, Statement, Text, update
from budgets.envelope import Envelope
from budgets.models import BIG, InferenceBudget

if TYPE_CHECKING:
    from datetime import date

ALLOWANCE = """
allowance (tokens) AS (
    SELECT MAX(granted.daily_tokens)
      FROM budgets_groupallowance AS granted
      JOIN auth_user_groups AS member ON member.group_id = granted.group_id
     WHERE member.user_id = %(user_id)s
)
"""
# One statement creates the first row of a user, starts a new day, or adds to the present one, so
# that parallel first requests cannot pass each other. A day never goes back: a caller that still
# believes in yesterday moves nothing.
RESERVING = """
INSERT INTO budgets_inferencebudget AS budget
       (user_id, daily_tokens, is_own, spent_tokens, reserved_tokens, forgiven_tokens,
        active_jobs, day_utc)
SELECT %(user_id)s, %(cap)s, FALSE, %(tokens)s, %(tokens)s, 0, 1, {day}
 WHERE %(tokens)s <= COALESCE((SELECT tokens FROM allowance), %(cap)s)
    OR EXISTS (SELECT 1 FROM budgets_inferencebudget WHERE user_id = %(user_id)s)
    ON CONFLICT (user_id) DO UPDATE
   SET spent_tokens = excluded.spent_tokens
         + CASE WHEN budget.day_utc = excluded.day_utc THEN budget.spent_tokens ELSE 0 END,
       reserved_tokens = excluded.reserved_tokens
         + CASE WHEN budget.day_utc = excluded.day_utc THEN budget.reserved_tokens ELSE 0 END,
       forgiven_tokens =
           CASE WHEN budget.day_utc = excluded.day_utc THEN budget.forgiven_tokens ELSE 0 END,
       active_jobs = budget.active_jobs + 1,
       day_utc = excluded.day_utc
 WHERE budget.day_utc <= excluded.day_utc
   AND budget.active_jobs < %(max_active)s
   AND excluded.spent_tokens
       <= CASE WHEN budget.is_own THEN budget.daily_tokens
               ELSE COALESCE((SELECT tokens FROM allowance), budget.daily_tokens) END
        - CASE WHEN budget.day_utc = excluded.day_utc THEN budget.spent_tokens ELSE 0 END
RETURNING CASE WHEN is_own THEN daily_tokens
               ELSE COALESCE((SELECT tokens FROM allowance), daily_tokens) END AS daily_tokens,
          spent_tokens
"""
RESERVE = Statement(lambda: Text.of(f"WITH {ALLOWANCE} {RESERVING.format(day='%(day_utc)s')}"))


def reserving_with(job: Text) -> Text:
    """PostgreSQL's INSERT of a job and the reservation for it as one statement, both or none.

    `job` inserts the row or, where its key is taken, nothing. No row comes back then; a division
    by zero, which undoes the insert, where the budget does not take it. The row of the job comes
    first, so that whoever waits for its key holds no lock on a budget.
    """
    reserving = RESERVING.format(day="job.day_utc\n  FROM job")
    return (
        Text("WITH job AS (", ())
        + job
        + Text.of(
            f" RETURNING day_utc), {ALLOWANCE}, reserved AS ({reserving})"  # noqa: S608  # text of ours
            " SELECT job.day_utc, reserved.daily_tokens, reserved.spent_tokens,"
            " 1 / (SELECT COUNT(*) FROM reserved) AS is_reserved"
            " FROM job LEFT JOIN reserved ON TRUE"
        )
    )


def reserving_values(user_id: int, tokens: int) -> dict[str, int]:
    """What a reservation needs to know besides the day."""
    return {
        "user_id": user_id,
        "tokens": tokens,
        "cap": settings.DAILY_TOKEN_CAP,
        "max_active": settings.MAX_ACTIVE_JOBS_PER_USER,
    }


def reserve(user_id: int, *, tokens: int, day_utc: date) -> Envelope | None:
    """Take tokens and one active job from the user's day, in one statement.

    None: it does not fit, the user has too many active jobs, or the row is a day further.
    Nothing was written then.
    """
    row = RESERVE.first(**reserving_values(user_id, tokens), day_utc=day_utc)
    if row is None:
        return None
    return Envelope(daily_tokens=row[0], spent_tokens=row[1], day_utc=day_utc)


def settling() -> Text:
    """The UPDATE that ends one active job: the tokens really used in the place of those reserved.

    Another day's count is never touched. Its slots are those of `settling_values`.
    """
    day_utc = Given("day_utc", models.DateField())
    return update(
        InferenceBudget.objects.filter(user_id=Given("user_id", BIG)),
        spent_tokens=_moved_on(day_utc, "spent_tokens", by=Given("spent_by", BIG)),
        reserved_tokens=_moved_on(day_utc, "reserved_tokens", by=Given("reserved_by", BIG)),
        active_jobs=Greatest(F("active_jobs") - 1, Value(0), output_field=BIG),
    )


def settling_values(
    user_id: int, *, day_utc: date, reserved: int, used: int
) -> dict[str, int | date]:
    """What `settling` needs to know; `used=0` releases, `used=reserved` keeps."""
    moves = {"spent_by": used - reserved, "reserved_by": -reserved}
    return {"user_id": user_id, "day_utc": day_utc, **moves}


SETTLE = Statement(settling)


def _moved_on(day_utc: Given, tokens: str, *, by: Given) -> Case:
    moved = Greatest(F(tokens) + by, Value(0), output_field=BIG)
    return Case(When(day_utc=day_utc, then=moved), default=F(tokens), output_field=BIG)
