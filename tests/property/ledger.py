"""The second book: what jobs and budgets must be, kept in plain Python and by other means.

It never adds to or takes from a total: what a day has spent is counted anew from the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

Thing = TypeVar("Thing")

CAP = 60
MOST_ACTIVE = 3
OUTPUT_TOKENS = 5


@dataclass(slots=True)
class Job:
    """A job as it must be."""

    job_id: UUID
    user_id: int
    key: str
    prompt: str
    reserved: int
    day: date
    status: str = "queued"
    error_code: str = ""
    claim_id: UUID | None = None  # of the claim that may finish it
    charge: int | None = None  # once it ended
    is_put_off: bool = False  # queued again, for a later try
    is_late: bool = False  # queued for too long
    is_lost: bool = False  # its lease is over
    is_old: bool = False  # its texts are out of retention
    is_erased: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it still reserves."""
        return self.status in ("queued", "running")

    @property
    def is_claimable(self) -> bool:
        """Whether a worker may take it."""
        return self.status == "queued" and not self.is_late and not self.is_put_off

    def end(self, status: str, error_code: str = "", *, charge: int) -> None:
        """End it."""
        assert self.is_active
        self.status, self.error_code, self.charge, self.claim_id = status, error_code, charge, None


@dataclass(slots=True)
class Budget:
    """A user's allowance, and the last day on which something was reserved."""

    cap: int
    day: date
    is_own: bool = False
    forgiven: int = 0  # of that day


@dataclass(slots=True)
class Ledger:
    """All jobs and budgets of one run."""

    today: date
    jobs: list[Job] = field(default_factory=list)
    budgets: dict[int, Budget] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    allowance: int | None = None  # of the members

    def of(self, user_id: int) -> Iterator[Job]:
        """One user's jobs."""
        return (job for job in self.jobs if job.user_id == user_id)

    def spent(self, user_id: int, day: date) -> int:
        """What a day is charged with: reservations of active jobs, charges of ended ones."""
        of_the_day = (job for job in self.of(user_id) if job.day == day)
        return sum(job.reserved if job.charge is None else job.charge for job in of_the_day)

    def counted(self, user_id: int, day: date) -> int:
        """What a day is charged with, less what was taken off it."""
        budget = self.budgets.get(user_id)
        forgiven = budget.forgiven if budget is not None and budget.day == day else 0
        return self.spent(user_id, day) - forgiven

    def reserved(self, user_id: int, day: date) -> int:
        """The part of it that may still be given back."""
        return sum(job.reserved for job in self.of(user_id) if job.day == day and job.is_active)

    def cap(self, user_id: int) -> int:
        """What counts: the user's own cap, else the group's, else the default."""
        budget = self.budgets.get(user_id, Budget(CAP, self.today))
        is_granted = self.allowance is not None and user_id in self.members and not budget.is_own
        return self.allowance if is_granted and self.allowance is not None else budget.cap

    def active(self, user_id: int) -> int:
        """How many jobs are queued or running."""
        return sum(job.is_active for job in self.of(user_id))

    def answer(self, user_id: int, key: str, prompt: str) -> str:
        """How a POST must be answered now."""
        for job in self.of(user_id):
            if job.key == key:
                return "replayed" if job.prompt == prompt else "idempotency_key_reused"
        cap = self.cap(user_id)
        if reservation(prompt) > cap:
            return "exceeds_daily_budget"
        if self.counted(user_id, self.today) + reservation(prompt) > cap:
            return "budget_exhausted"
        if self.active(user_id) >= MOST_ACTIVE:
            return "too_many_active_jobs"
        return "accepted"

    def accept(self, user_id: int, key: str, prompt: str, job_id: UUID) -> None:
        """Note an accepted job."""
        self.jobs.append(Job(job_id, user_id, key, prompt, reservation(prompt), self.today))
        budget = self.budget(user_id)
        if budget.day != self.today:
            budget.day, budget.forgiven = self.today, 0

    def budget(self, user_id: int) -> Budget:
        """A user's row, made where there is none."""
        return self.budgets.setdefault(user_id, Budget(CAP, self.today))

    def midnight(self) -> None:
        """Everything so far was yesterday."""
        for job in self.jobs:
            job.day -= timedelta(days=1)
        for budget in self.budgets.values():
            budget.day -= timedelta(days=1)


def reservation(prompt: str) -> int:
    """What a prompt reserves."""
    return max(1, len(prompt) // 4) + OUTPUT_TOKENS


def recent(things: Sequence[Thing], one: int) -> Thing:
    """One of the last few, where something still happens."""
    return things[-1 - one % len(things)]
