"""The birth of a job: insert and reserve in one transaction, replay, publish after the commit."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from django.conf import settings
from django.db import DataError, IntegrityError, connection, models, transaction
from django.db.models.functions import Cast

from budgets.compiled import Given, Reading, Statement, Text, given, insert, returning
from budgets.envelope import Envelope, estimate_tokens, rfc3339
from budgets.models import InferenceBudget, granted_to, unspent
from budgets.reserving import reserve, reserving_values, reserving_with
from budgets.rows import Now, UtcToday
from reports import digests, dispatch, events, ids
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

    from reports.conversation import Conversation
    from reports.wishes import Wishes

# The day can turn between the insert and the reservation; a second try begins on the new day.
TRIES = 3
ACTIVE_JOBS_RETRY_S = 5
# The columns that a request fills as it is; the database makes the others.
GIVEN = (
    *("id", "idempotency_key", "prompt", "token_estimate"),
    *("metadata", "again_of", "openai_request"),
)
DIVISION_BY_ZERO = "22012"  # of SQLSTATE


class Again(Exception):
    """What stood in the way is gone: the day has turned, or a job has ended meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What a POST is answered with."""

    job_id: UUID
    status: str
    was_replayed: bool
    envelope: Envelope


def reservation(prompt: str, conversation: Conversation | None = None) -> int:
    """Tokens that such a job reserves: its estimate and the output limit."""
    limit: int = settings.INFERENCE_MAX_OUTPUT_TOKENS
    if conversation is None:
        return estimate_tokens(prompt) + limit
    wished = conversation.max_output_tokens
    return estimate_tokens(conversation.text) + (limit if wished is None else wished)


def accept(user_id: int, *, key: str, prompt: str, wishes: Wishes = NO_WISHES) -> Accepted:
    """Take a prompt as work: one row, one reservation, one message; or find the key's job.

    A replay is one by key and prompt, or messages: the other wishes of the first stand. Raises
    KeyReused, ExceedsDailyBudget, BudgetExhausted or TooManyActiveJobs, and leaves nothing.
    """
    clash: IntegrityError | None = None
    began_ns = traces.now()
    asked, limit_s = wishes.conversation, wishes.expires_in_s
    tokens = reservation(prompt, asked)
    take = _take_at_once if connection.vendor == "postgresql" else _take_in_two
    for _ in range(TRIES):
        job_id = ids.uuid7()
        try:
            envelope = take(
                user_id,
                tokens=tokens,
                id=job_id,
                idempotency_key=key,
                prompt=prompt,
                metadata=dict(wishes.metadata),
                limit=None if limit_s is None else timedelta(seconds=limit_s),
                again_of=wishes.again_of,
                openai_request=None if asked is None else asked.kept(),
            )
        except Again:
            continue
        except IntegrityError as error:
            clash, envelope = error, None
        if envelope is None:
            replayed = _replay(user_id, key=key, prompt=prompt, asked=asked)
            if replayed is None:  # retention took the row meanwhile, or the clash was another
                continue
            events.accepted(replayed.job_id, is_new=False, began_ns=began_ns)
            return replayed
        events.accepted(job_id, is_new=True, began_ns=began_ns)
        dispatch.publish_soon(job_id)
        return Accepted(job_id=job_id, status=Status.QUEUED, was_replayed=False, envelope=envelope)
    # The budget row lies in the future: the database's clock was set back, and will catch up.
    raise clash or Unavailable


def _inserting() -> Text:
    row = ReportJob(
        status=Status.QUEUED,
        publish_again_at=Now() + timedelta(seconds=settings.REDISPATCH_AFTER_S),
        # Without a limit of its own the sum is null.
        expires_at=Now() + Cast(Given("limit", models.DurationField()), models.DurationField()),
    )
    for name in GIVEN:
        setattr(row, name, given(ReportJob, name))
    vars(row)["user_id"] = Given("user_id", models.BigIntegerField())
    return insert(row)


def _take_at_once(user_id: int, *, tokens: int, **values: object) -> Envelope | None:
    """Insert and reserve, both or none, in one statement. None: the key is taken."""
    # An error would also end a transaction that the caller has begun.
    is_inner = connection.in_atomic_block
    try:
        with transaction.atomic() if is_inner else nullcontext():
            row = TAKE.first(**values, token_estimate=tokens, **reserving_values(user_id, tokens))
    except DataError as error:
        if getattr(error.__cause__, "sqlstate", "") != DIVISION_BY_ZERO:
            raise
        _refuse(user_id, tokens=tokens)
    if row is None:
        return None
    return Envelope(day_utc=row[0], daily_tokens=row[1], spent_tokens=row[2])


def _take_in_two(user_id: int, *, tokens: int, **values: object) -> Envelope | None:
    """The same for a database that cannot write two tables with one statement.

    Raises IntegrityError when the key is taken.
    """
    with transaction.atomic(durable=True):
        (day_utc,) = INSERT.first(**values, user_id=user_id, token_estimate=tokens) or ()
        envelope = reserve(user_id, tokens=tokens, day_utc=day_utc)
        if envelope is None:
            _refuse(user_id, tokens=tokens)
    return envelope


# The unique constraint decides a race: a look-up before it could only be out of date.
TAKE = Statement(
    lambda: reserving_with(_inserting() + " ON CONFLICT (user_id, idempotency_key) DO NOTHING"),
    of=("REDISPATCH_AFTER_S",),
    is_secret=True,  # it fails where the budget refuses the job, and holds the prompt
)
INSERT = Reading(
    lambda: returning(_inserting(), ReportJob, ["day_utc"]),
    of=("REDISPATCH_AFTER_S",),
)


def _refuse(user_id: int, *, tokens: int) -> NoReturn:
    why_not = _why_not(user_id, tokens=tokens)
    if isinstance(why_not, Refusal):
        events.refused(why_not)
    raise why_not


def _why_not(user_id: int, *, tokens: int) -> Exception:
    row = InferenceBudget.objects.filter(user_id=user_id).with_allowance().first()
    if row is not None and row.day_utc > vars(row)["today"]:
        return Again()
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
    if row is None or row.active_jobs < settings.MAX_ACTIVE_JOBS_PER_USER:
        return Again()
    return TooManyActiveJobs(
        f"You have {settings.MAX_ACTIVE_JOBS_PER_USER} jobs queued or running, which is the limit. "
        "Send this again when one of them has ended.",
        members={"max_active_jobs": settings.MAX_ACTIVE_JOBS_PER_USER},
        headers={"Retry-After": str(ACTIVE_JOBS_RETRY_S)},
    )


def _replay(user_id: int, *, key: str, prompt: str, asked: Conversation | None) -> Accepted | None:
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
    identity = prompt if asked is None else asked.identity
    is_same = (
        digests.matches(job.prompt_digest, identity) if job.is_erased else job.identity == identity
    )
    if not is_same:
        raise KeyReused(members={"job_id": str(job.pk)})
    budget = getattr(job.user, "inference_budget", None)  # an operator may have deleted the row
    read = vars(job)
    envelope = (
        unspent(user_id)
        if budget is None
        else budget.envelope_of(read["today"], allowance=read["allowance"])
    )
    return Accepted(job_id=job.pk, status=job.status, was_replayed=True, envelope=envelope)
