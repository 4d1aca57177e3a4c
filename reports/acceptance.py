"""The birth of a job: insert and reserve in one transaction, replay, publish after the commit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import IntegrityError, transaction

from budgets.envelope import Envelope, estimate_tokens, rfc3339
from budgets.models import InferenceBudget, granted_to, unspent
from budgets.rows import Now, UtcToday
from reports import digests, dispatch, events
from reports.errors import (
    BudgetExhausted,
    ExceedsDailyBudget,
    KeyReused,
    Refusal,
    TooManyActiveJobs,
    Unavailable,
)
from reports.models import ReportJob, Status
from reports.wishes import NO_WISHES
from telemetry import traces

if TYPE_CHECKING:
    from uuid import UUID

    from reports.wishes import Wishes

# The day can turn between the insert and the reservation; a second try begins on the new day.
TRIES = 3
ACTIVE_JOBS_RETRY_S = 5


class DayTurned(Exception):
    """The budget row is already a day further than this job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a POST is answered with."""

    job_id: UUID
    status: str
    was_replayed: bool
    envelope: Envelope


def reservation(prompt: str) -> int:
    """Tokens that a job with this prompt reserves: its estimate and the output limit."""
    return estimate_tokens(prompt) + settings.INFERENCE_MAX_OUTPUT_TOKENS


def accept(user_id: int, *, key: str, prompt: str, wishes: Wishes = NO_WISHES) -> Accepted:
    """Take a prompt as work: one row, one reservation, one message; or find the key's job.

    A replay is one by key and prompt alone: the wishes of the first stand. Raises KeyReused,
    ExceedsDailyBudget, BudgetExhausted or TooManyActiveJobs, and leaves nothing.
    """
    clash: IntegrityError | None = None
    began_ns = traces.now()
    for _ in range(TRIES):
        try:
            job, envelope = _insert_and_reserve(user_id, key=key, prompt=prompt, wishes=wishes)
        except DayTurned:
            continue
        except IntegrityError as error:
            replayed = _replay(user_id, key=key, prompt=prompt)
            if replayed is None:  # retention took the row meanwhile, or the clash was another
                clash = error
                continue
            events.accepted(replayed.job_id, is_new=False, began_ns=began_ns)
            return replayed
        events.accepted(job.pk, is_new=True, began_ns=began_ns)
        dispatch.publish_soon(job.pk)
        return Accepted(job_id=job.pk, status=job.status, was_replayed=False, envelope=envelope)
    # The budget row lies in the future: the database's clock was set back, and will catch up.
    raise clash or Unavailable


def _insert_and_reserve(
    user_id: int, *, key: str, prompt: str, wishes: Wishes
) -> tuple[ReportJob, Envelope]:
    tokens = reservation(prompt)
    limit_s = wishes.expires_in_s
    job = ReportJob(
        user_id=user_id,
        idempotency_key=key,
        prompt=prompt,
        status=Status.QUEUED,
        token_estimate=tokens,
        publish_again_at=Now() + timedelta(seconds=settings.REDISPATCH_AFTER_S),
        metadata=dict(wishes.metadata),
        expires_at=None if limit_s is None else Now() + timedelta(seconds=limit_s),
        again_of=wishes.again_of,
    )
    with transaction.atomic(durable=True):
        # The unique constraint decides a race: a look-up before it could only be out of date.
        job.save(force_insert=True)
        envelope = InferenceBudget.objects.reserve(user_id, tokens=tokens, day_utc=job.day_utc)
        if envelope is None:
            why_not = _why_not(user_id, tokens=tokens, job=job)
            if isinstance(why_not, Refusal):
                events.refused(why_not)
            raise why_not
    return job, envelope


def _why_not(user_id: int, *, tokens: int, job: ReportJob) -> Exception:
    row = InferenceBudget.objects.filter(user_id=user_id).with_allowance().first()
    if row is not None and row.day_utc > job.day_utc:
        return DayTurned()
    envelope = unspent(user_id) if row is None else row.envelope()
    asked = {
        "requested_tokens": tokens,
        "remaining_tokens": envelope.remaining_tokens,
        "daily_tokens": envelope.daily_tokens,
        "resets_at": rfc3339(envelope.resets_at),
    }
    if tokens > envelope.daily_tokens:
        return ExceedsDailyBudget(
            f"This job would reserve {tokens} tokens, more than the whole daily allowance of "
            f"{envelope.daily_tokens}. Shorten the prompt, or ask for a larger allowance.",
            members=asked,
            headers=envelope.headers(),
        )
    if tokens > envelope.remaining_tokens:
        return BudgetExhausted(
            f"This job would reserve {tokens} tokens and {envelope.remaining_tokens} of today's "
            f"{envelope.daily_tokens} are left. The count starts again at {asked['resets_at']}.",
            members={"retry": "tomorrow", "violated-policies": ["daily-tokens"], **asked},
            headers={**envelope.headers(), "Retry-After": str(envelope.seconds_left())},
        )
    return TooManyActiveJobs(
        f"You have {settings.MAX_ACTIVE_JOBS_PER_USER} jobs queued or running, which is the limit. "
        "Send this again when one of them has ended.",
        members={"max_active_jobs": settings.MAX_ACTIVE_JOBS_PER_USER},
        headers={"Retry-After": str(ACTIVE_JOBS_RETRY_S)},
    )


def _replay(user_id: int, *, key: str, prompt: str) -> Accepted | None:
    """The job that has this key; None: the clash was about something else. Raises KeyReused."""
    job = (
        ReportJob.objects.owned_by(user_id)
        .select_related("user__inference_budget")
        .annotate(today=UtcToday(), allowance=granted_to("user_id"))
        .filter(idempotency_key=key)
        .first()
    )
    if job is None:
        return None
    same = digests.matches(job.prompt_digest, prompt) if job.is_erased else job.prompt == prompt
    if not same:
        raise KeyReused(members={"job_id": str(job.pk)})
    budget = getattr(job.user, "inference_budget", None)  # an operator may have deleted the row
    read = vars(job)
    envelope = (
        unspent(user_id)
        if budget is None
        else budget.envelope_of(read["today"], allowance=read["allowance"])
    )
    return Accepted(job_id=job.pk, status=job.status, was_replayed=True, envelope=envelope)
