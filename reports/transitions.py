"""Every change of a job after its birth: the only room that writes a status.

Each change is one conditional UPDATE whose WHERE holds the old status and whatever gives the right
to move it. Where a budget moves too, both happen in one transaction. The lock order, which makes a
deadlock impossible: the job row first, then its user's budget row, never two jobs at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from django.db import connection, transaction
from django.db.models import F

from budgets.compiled import Statement
from budgets.envelope import estimate_tokens, rfc3339
from budgets.reserving import SETTLE, settling_values
from budgets.rows import ByKey, Noted, Now
from reports import digests, events
from reports.endings import ENDINGS, UNANSWERED, Settlement, is_far_below
from reports.errors import ErrorCode, JobActive, JobFinished
from reports.models import TERMINAL, ReportJob, Status
from reports.statements import CLAIM, CLAIMED, NOTHING_OF_IT, SUCCEED, ending
from reports.timeline import What

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reports.conversation import Conversation
    from reports.models import JobQuerySet
    from reports.provider import Completion, Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to finish one running job; only `claim` makes one."""

    job_id: UUID
    claim_id: UUID
    user_id: int
    token_estimate: int
    day_utc: date
    attempts: int
    prompt: str = field(repr=False)
    conversation: Conversation | None = field(default=None, repr=False)

    @classmethod
    def of(cls, job: ReportJob) -> Claim:
        """The claim that a row carries. A row that was never claimed has none: AssertionError."""
        assert job.claim_id is not None  # noqa: S101  # a database CHECK holds it for running rows
        return cls(
            job_id=job.pk,
            claim_id=job.claim_id,
            user_id=job.user_id,
            token_estimate=job.token_estimate,
            day_utc=job.day_utc,
            attempts=job.attempts,
            prompt=job.prompt,
            conversation=job.conversation,
        )

    @property
    def text(self) -> str:
        """All that is sent to the model, in order."""
        return self.prompt if self.conversation is None else self.conversation.text


def claim(job_id: UUID, *, published_at: datetime | None = None) -> Claim | None:
    """queued -> running. None: another worker was first, or it was cancelled or waited too long.

    `published_at` is what the message says of itself, for the timeline.
    """
    published = rfc3339(published_at) if published_at else ""
    row = CLAIM.first(job_id=job_id, claim_id=uuid4(), told=published)
    if row is None:
        return None
    job = ReportJob.from_db(None, CLAIMED, row)
    events.claimed(job)
    return Claim.of(job)


def succeed(held: Claim, completion: Completion) -> bool:
    """running -> succeeded, reservation -> usage.

    False: the lease was lost or the job cancelled; nothing was written.
    """
    usage = completion.usage
    if usage is None:
        used = estimate_tokens(held.text) + estimate_tokens(completion.text)
    else:
        used = usage.prompt_tokens + usage.completion_tokens
    moved = _end(
        SUCCEED,
        Settlement.charging(held, used),
        job_id=held.job_id,
        claim_id=held.claim_id,
        result_text=completion.text,
        finish_reason=completion.finish_reason[:64],
        prompt_tokens=usage.prompt_tokens if usage else None,
        completion_tokens=usage.completion_tokens if usage else None,
        is_prompt_cut=usage is not None and is_far_below(usage.prompt_tokens, held.text),
    )
    if moved and usage and used > held.token_estimate:
        events.overspent(held.job_id, used=used, reserved=held.token_estimate)
    return moved


def fail(held: Claim, failure: Failure) -> bool:
    """running -> failed, reservation released.

    False: the lease was lost or the job cancelled; nothing was written.
    """
    # An answer other than 200 is clear: who refuses a call does not bill it.
    is_unclear = failure.retry_after_s is None and failure.code in UNANSWERED
    told = (failure.http_status, failure.detail[:500], is_unclear)
    return _end_failed(_fenced(held), Settlement.releasing(held), failure.code, told=told)


def postpone(held: Claim, *, wait_s: float) -> bool:
    """running -> queued, for a second try of a call that the provider certainly did not begin.

    The reservation stays, and the sweep publishes the job once the wait is over. False: the lease
    was lost, the job cancelled, or the wait would outlast its time; nothing was written.
    """
    wait = timedelta(seconds=wait_s)
    moved = (
        _fenced(held)
        .in_time(after=wait)
        .update(
            status=Status.QUEUED,
            claim_id=None,
            lease_expires_at=None,
            started_at=None,
            try_after=Now() + wait,
            publish_again_at=Now() + wait,
            updated_at=Now(),
            timeline=Noted("timeline", What.PUT_OFF, f"for {wait_s:g} s"),
        )
    )
    return bool(moved)


def break_off(held: Claim, code: ErrorCode) -> bool:
    """running -> failed by its own worker, for a reason of ours: internal_error or worker_lost.

    False: the lease was lost or the job cancelled; nothing was written.
    """
    return _end_failed(_fenced(held), Settlement.releasing(held), code)


def lose(job: ReportJob) -> bool:
    """running -> failed as worker_lost, once the lease ran out. False: its worker was in time."""
    rows = ReportJob.objects.lease_expired().filter(pk=job.pk, claim_id=job.claim_id)
    return _end_failed(rows, Settlement.releasing(job), ErrorCode.WORKER_LOST)


def give_up(job: ReportJob) -> bool:
    """running -> failed as worker_lost, by an operator, lease or none. False: it had moved."""
    rows = ReportJob.objects.running().filter(pk=job.pk, claim_id=job.claim_id)
    return _end_failed(rows, Settlement.releasing(job), ErrorCode.WORKER_LOST)


def expire(job: ReportJob) -> bool:
    """queued -> failed as queue_expired, once its time is over. False: claimed or cancelled."""
    rows = ReportJob.objects.expired().filter(pk=job.pk)
    return _end_failed(rows, Settlement.releasing(job), ErrorCode.QUEUE_EXPIRED)


def republish(job: ReportJob, *, again_after_s: float, is_early: bool = False) -> bool:
    """Take the right to publish a queued job's id again; the next time is `again_after_s` from now.

    An operator may do so early. False: a sweep took it, or no worker could claim the job now.
    """
    rows = ReportJob.objects.claimable() if is_early else ReportJob.objects.unpublished()
    moved = rows.filter(pk=job.pk, republished=job.republished).update(
        republished=F("republished") + 1,
        publish_again_at=Now() + timedelta(seconds=again_after_s),
        timeline=Noted("timeline", What.REPUBLISHED),
    )
    return bool(moved)


def cancel(job: ReportJob, *, by: str = "its owner") -> bool:
    """queued or running -> failed as cancelled. Call it again for the same effect.

    A queued job gives its reservation back; a running one keeps it, since its call may be billed.
    `by` is for the timeline. False: it was cancelled before. Raises JobFinished when it ended
    otherwise.
    """
    rows = ReportJob.objects.filter(pk=job.pk)
    # Again while it is not terminal: between the two a worker may have claimed it or put it off.
    while rows.exclude(status__in=TERMINAL).exists():
        if _end_failed(rows.queued(), Settlement.releasing(job), ErrorCode.CANCELLED, by=by):
            return True
        if _end_failed(rows.running(), Settlement.keeping(job), ErrorCode.CANCELLED, by=by):
            return True
    if not rows.filter(error_code=ErrorCode.CANCELLED).exists():
        raise JobFinished
    return False


def erase(job: ReportJob) -> bool:
    """Erase the texts of a terminal job for good; a keyed hash of the prompt stays.

    False: they were erased before. Raises JobActive while the job is not terminal.
    """
    if job.is_erased:
        return False
    moved = _erase([job])
    if not moved and not ReportJob.objects.terminal().filter(pk=job.pk).exists():
        raise JobActive
    return bool(moved)


def erase_all(jobs: Sequence[ReportJob]) -> int:
    """Erase the texts of several terminal jobs, which the caller holds locked; of how many."""
    return _erase(jobs) if jobs else 0


def _erase(jobs: Sequence[ReportJob]) -> int:
    rows = ReportJob.objects.terminal().filter(pk__in=[job.pk for job in jobs], erased_at=None)
    texts = {job.pk: digests.of(job.identity) for job in jobs}
    moved = rows.update(
        prompt="",
        prompt_digest=ByKey(ReportJob._meta.pk, texts),
        result_text="",
        error_detail="",
        metadata={},
        openai_request=NOTHING_OF_IT,
        erased_at=Now(),
        updated_at=Now(),
    )
    if moved == len(jobs):
        transaction.on_commit(lambda: events.erased(jobs))
    return moved


def _fenced(held: Claim) -> JobQuerySet:
    return ReportJob.objects.running().filter(pk=held.job_id, claim_id=held.claim_id)


def _end_failed(
    rows: JobQuerySet,
    settlement: Settlement,
    code: ErrorCode,
    *,
    by: str = "",
    told: tuple[int, str, bool] | None = None,
) -> bool:
    """`told`: HTTP status, detail and whether it is unclear, where they do not follow from it."""
    http_status, detail, is_unclear = told or (*ENDINGS[code], code in UNANSWERED)
    failing = Statement(
        lambda: ending(
            rows,
            What.CANCELLED if by else What.FAILED,
            status=Status.FAILED,
            http_status=http_status,
            error_code=code,
            error_detail=detail,
            is_unclear=is_unclear,
        )
    )
    return _end(failing, settlement, code=code, by=by, is_unclear=is_unclear)


def _end(
    statement: Statement,
    settlement: Settlement,
    *,
    code: ErrorCode | None = None,
    by: str = "",
    is_unclear: bool = False,
    **values: object,
) -> bool:
    charged = f"{settlement.used} of {settlement.reserved} reserved tokens charged"
    why = f"by {by}, " if by else "" if code is None else f"{code}, "
    values |= {"settled_tokens": settlement.used, "told": why + charged}
    settled = settling_values(
        settlement.user_id,
        day_utc=settlement.day_utc,
        reserved=settlement.reserved,
        used=settlement.used,
    )
    if connection.vendor == "postgresql":
        (moved,) = statement.first(**values, **settled) or (0,)
    else:
        with transaction.atomic(durable=True):
            moved = statement.execute(**values)
            if moved:
                SETTLE.execute(**settled)
    if moved:
        events.ended(settlement.job_id, code, is_unclear=is_unclear)
    return bool(moved)
