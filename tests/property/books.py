"""The machine that does to the database what users, workers, operators and time may do."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from budgets import caps
from budgets.days import today
from budgets.models import GroupAllowance, InferenceBudget
from reports import acceptance, invariants, runner, sweep, transitions
from reports.errors import ErrorCode, JobActive, JobFinished, Refusal
from reports.models import TERMINAL, ReportJob
from reports.provider import Completion, Failure
from tests.property.ledger import CAP, Ledger, recent
from tests.property.steps import steps
from tests.support.provider import Answer, Provider

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from reports.provider import Usage
    from tests.property.ledger import Job

# Of a terminal row; its texts may be erased, and the tests move its times and its day.
FROZEN = (
    *("user_id", "idempotency_key", "status", "http_status", "error_code", "token_estimate"),
    *("prompt_tokens", "completion_tokens", "finish_reason", "settled_tokens", "claim_id"),
    *("attempts", "republished"),
)
MOMENTS = (
    *("created_at", "updated_at", "started_at", "finished_at", "erased_at"),
    *("lease_expires_at", "publish_again_at", "try_after"),
)
TEXT = "t" * 20
USED = 7
FAILURE = Failure(ErrorCode.PROVIDER_5XX, 503, "It answered 503.")


class Books(RuleBasedStateMachine):
    """Does to the database what users, workers, operators and time may do, in any order."""

    provider: ClassVar[Provider]
    user_ids: ClassVar[list[int]]
    operator: ClassVar[User]
    group_id: ClassVar[int]  # of a group with the second user in it
    met: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        ReportJob.objects.all().delete()
        InferenceBudget.objects.all().delete()
        GroupAllowance.objects.all().delete()
        self.provider.script(
            Answer.of({"text": TEXT, "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
        )
        self.ledger = Ledger(today(self.user_ids[0]).day_utc)
        self.ledger.members.add(self.user_ids[1])
        self.claims: list[transitions.Claim] = []
        self.frozen: dict[object, dict[str, Any]] = {}
        self.accept(0, "first", 1)
        self.claim(0)

    @rule(step=steps)
    def take(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        getattr(self, name)(*arguments)

    @invariant()
    def check(self) -> None:
        self.both_books_agree()
        self.terminal_rows_never_change()
        self.no_job_is_called_twice()

    def accept(self, user: int, key: str, size: int) -> None:
        user_id, prompt = self.user_ids[user], "p" * size
        expected = self.ledger.answer(user_id, key, prompt)
        self.met[expected] += 1
        if expected not in ("accepted", "replayed"):
            with pytest.raises(Refusal) as refused:
                acceptance.accept(user_id, key=key, prompt=prompt)
            assert refused.value.code == expected
            return
        accepted = acceptance.accept(user_id, key=key, prompt=prompt)

        assert accepted.was_replayed == (expected == "replayed")
        if not accepted.was_replayed:
            self.ledger.accept(user_id, key, prompt, accepted.job_id)
        (job,) = (job for job in self.ledger.of(user_id) if job.key == key)
        assert (accepted.job_id, accepted.status) == (job.job_id, job.status)
        envelope = accepted.envelope
        assert envelope.spent_tokens == self.ledger.counted(user_id, self.ledger.today)
        assert envelope.daily_tokens == self.ledger.cap(user_id)
        self.met["allowed by a group"] += envelope.daily_tokens not in (CAP, self._cap(user_id))
        self.met["replayed once erased"] += accepted.was_replayed and job.is_erased

    def claim(self, one: int) -> None:
        job = self._job(one, "queued")
        expected = job.is_claimable
        held = transitions.claim(job.job_id)

        assert (held is not None) == expected
        if held is None:
            self.met["claim too late" if job.status == "queued" else "claim refused"] += 1
        else:
            job.status, job.claim_id, job.is_lost = "running", held.claim_id, False
            self.claims.append(held)
            self.met["claimed"] += 1

    def succeed(self, one: int, usage: Usage | None) -> None:
        held, job = self._claim(one)
        used = max(1, len(job.prompt) // 4) + len(TEXT) // 4
        if usage is not None:
            used = usage.prompt_tokens + usage.completion_tokens
        moved = transitions.succeed(held, Completion(TEXT, usage=usage))

        if self._is_moved(job, held, moved, "succeeded"):
            job.end("succeeded", charge=used)
            self.met["over the reservation"] += used > job.reserved

    def fail(self, one: int) -> None:
        held, job = self._claim(one)
        if self._is_moved(job, held, transitions.fail(held, FAILURE), "failed"):
            job.end("failed", FAILURE.code, charge=0)

    def break_off(self, one: int) -> None:
        held, job = self._claim(one)
        moved = transitions.break_off(held, ErrorCode.INTERNAL_ERROR)
        if self._is_moved(job, held, moved, "broken off"):
            job.end("failed", ErrorCode.INTERNAL_ERROR, charge=0)

    def postpone(self, one: int, wait_s: int) -> None:
        """A provider that was busy; the reservation stays."""
        held, job = self._claim(one)
        if self._is_moved(job, held, transitions.postpone(held, wait_s=wait_s), "put off"):
            job.status, job.claim_id, job.is_put_off = "queued", None, wait_s > 0

    def deliver(self, one: int) -> None:
        """A message, the first or a copy of it."""
        job = self._job(one, "queued")
        is_claimable = job.is_claimable
        runner.run(job.job_id)

        if is_claimable:
            job.end("succeeded", charge=USED)
        self.met["run" if is_claimable else "run refused"] += 1

    def cancel(self, one: int) -> None:
        job = self._job(one, "queued", "running")
        was, code = job.status, job.error_code
        row = ReportJob.objects.get(pk=job.job_id)
        if job.is_active:
            assert transitions.cancel(row)
            kept = job.reserved if was == "running" else 0
            job.end("failed", ErrorCode.CANCELLED, charge=kept)
            self.met[f"cancelled {was}"] += 1
        elif code == ErrorCode.CANCELLED:
            assert not transitions.cancel(row)
            self.met["cancelled again"] += 1
        else:
            with pytest.raises(JobFinished):
                transitions.cancel(row)
            self.met["cancel refused"] += 1

    def erase(self, one: int) -> None:
        job = self._job(one, *TERMINAL)
        row = ReportJob.objects.get(pk=job.job_id)
        if job.is_active:
            with pytest.raises(JobActive):
                transitions.erase(row)
            self.met["erase refused"] += 1
        else:
            assert transitions.erase(row) != job.is_erased
            self.met["erased again" if job.is_erased else "erased"] += 1
            job.is_erased = True

    def sweep(self) -> None:
        jobs = self.ledger.jobs
        lost = [job for job in jobs if job.status == "running" and job.is_lost]
        expired = [job for job in jobs if job.status == "queued" and job.is_late]
        old = [job for job in jobs if job.is_old and not job.is_erased]
        swept = sweep.sweep()

        assert (swept.lost, swept.expired, swept.erased) == (len(lost), len(expired), len(old))
        for job in lost:
            job.end("failed", ErrorCode.WORKER_LOST, charge=0)
        for job in expired:
            job.end("failed", ErrorCode.QUEUE_EXPIRED, charge=0)
        for job in old:
            job.is_erased = True
        for name, rows in (("lost", lost), ("expired", expired), ("erased", old)):
            self.met[f"swept {name}"] += len(rows)

    def time_runs_out(self, one: int) -> None:
        """A lease, a wait or a retention is over, and no sweep has been there yet."""
        job = self._job(one, "queued", "running")
        rows = ReportJob.objects.filter(pk=job.job_id)
        if job.is_put_off and job.status == "queued":
            rows.update(try_after=Now())
            job.is_put_off = False
        elif job.status == "queued":
            long_ago = timedelta(seconds=settings.QUEUE_TTL_S + 1)
            rows.update(created_at=Now() - long_ago)
            job.is_late = True
        elif job.status == "running":
            rows.update(lease_expires_at=Now() - timedelta(seconds=1))
            job.is_lost = True
        else:
            rows.update(finished_at=Now() - timedelta(days=settings.RETENTION_DAYS + 1))
            job.is_old = True

    def midnight(self, is_whole_day: bool) -> None:
        """The UTC day turns under whatever is queued or running; or a day passes under a sweep."""
        _move_days()
        self.ledger.midnight()
        yesterday = {held: held.day_utc - timedelta(days=1) for held in self.claims}
        self.claims = [replace(held, day_utc=day) for held, day in yesterday.items()]
        if is_whole_day:
            self._let_a_day_pass()

    def _let_a_day_pass(self) -> None:
        ReportJob.objects.update(**{name: F(name) - timedelta(days=1) for name in MOMENTS})
        for job in self.ledger.jobs:
            job.is_put_off = False
            job.is_late |= job.status == "queued"
            job.is_lost |= job.status == "running"
        self.sweep()

    def change_cap(self, user: int, cap: int) -> None:
        """An operator does."""
        user_id = self.user_ids[user]
        budget = self.ledger.budget(user_id)
        moved = caps.set_cap(user_id, daily_tokens=cap, by=self.operator, why="a test")

        assert moved == ((budget.cap, budget.is_own) != (cap, True))
        budget.cap, budget.is_own = cap, True
        self.met["cap below what is spent"] += self.ledger.spent(user_id, budget.day) > cap

    def follow_default(self, user: int) -> None:
        """An operator takes back what was set on a user."""
        budget = self.ledger.budget(self.user_ids[user])
        moved = caps.follow_default(self.user_ids[user], by=self.operator, why="a test")

        assert moved == budget.is_own
        if moved:
            budget.cap, budget.is_own = CAP, False
        self.met["back to the default"] += moved

    def change_allowance(self, cap: int | None) -> None:
        """An operator gives a group an allowance, or none."""
        moved = caps.set_allowance(self.group_id, daily_tokens=cap, by=self.operator, why="a test")

        assert moved == (cap != self.ledger.allowance)
        self.ledger.allowance = cap

    def reset_today(self, user: int) -> None:
        """An operator lets a user's day begin again."""
        user_id = self.user_ids[user]
        budget, now = self.ledger.budget(user_id), self.ledger.today
        charged = self.ledger.counted(user_id, now) - self.ledger.reserved(user_id, now)
        moved = caps.reset_today(user_id, by=self.operator, why="a test")

        assert moved == (budget.day == now and charged > 0)
        if moved:
            budget.forgiven += charged
        self.met["today begun again" if moved else "nothing to begin again"] += 1

    def _cap(self, user_id: int) -> int:
        return self.ledger.budget(user_id).cap

    def both_books_agree(self) -> None:
        assert {
            row.pk: (row.user_id, row.status, row.error_code, row.settled_tokens, row.day_utc)
            for row in ReportJob.objects.all()
        } == {
            job.job_id: (job.user_id, job.status, job.error_code, job.charge, job.day)
            for job in self.ledger.jobs
        }
        assert {
            row.user_id: (
                *(row.daily_tokens, row.is_own, row.spent_tokens, row.reserved_tokens),
                *(row.forgiven_tokens, row.active_jobs, row.day_utc),
            )
            for row in InferenceBudget.objects.all()
        } == {
            user_id: (
                budget.cap,
                budget.is_own,
                self.ledger.counted(user_id, budget.day),
                self.ledger.reserved(user_id, budget.day),
                budget.forgiven,
                self.ledger.active(user_id),
                budget.day,
            )
            for user_id, budget in self.ledger.budgets.items()
        }

    def the_command_finds_nothing(self) -> None:
        assert [str(fault) for fault in invariants.check()] == []

    def teardown(self) -> None:
        self.the_command_finds_nothing()

    def terminal_rows_never_change(self) -> None:
        rows = {row["pk"]: row for row in ReportJob.objects.terminal().values("pk", *FROZEN)}
        assert {pk: rows.get(pk) for pk in self.frozen} == self.frozen
        self.frozen = rows

    def no_job_is_called_twice(self) -> None:
        calls = Counter(call.job_id for call in self.provider.calls)
        assert not calls or max(calls.values()) == 1

    def _job(self, one: int, *wanted: str) -> Job:
        """One in a wanted state if there is any; now and then whichever."""
        jobs = self.ledger.jobs
        return recent([job for job in jobs if job.status in wanted and one] or jobs, one)

    def _claim(self, one: int) -> tuple[transitions.Claim, Job]:
        """One whose job runs if there is any; now and then the last but one of all."""
        jobs = {job.job_id: job for job in self.ledger.jobs}
        running = [held for held in self.claims if jobs[held.job_id].claim_id == held.claim_id]
        held = recent(running, one) if running and one else recent(self.claims, 1)
        return held, jobs[held.job_id]

    def _is_moved(self, job: Job, held: transitions.Claim, moved: bool, word: str) -> bool:
        is_running = job.status == "running"
        assert moved == (is_running and job.claim_id == held.claim_id)
        self.met["claim of an earlier try refused"] += is_running and not moved
        self.met[word if moved else "stale claim refused"] += 1
        self.met["ended on another day"] += moved and job.day != self.ledger.today
        return moved


def _move_days() -> None:
    for rows in (ReportJob.objects, InferenceBudget.objects):
        days = rows.order_by("day_utc").values_list("day_utc", flat=True).distinct()
        for day in list(days):
            rows.filter(day_utc=day).update(day_utc=day - timedelta(days=1))
