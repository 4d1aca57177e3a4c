"""What always holds (CONTRACT 5.1 to 5.3), asked of the database itself; it reads and never writes.

Each check is one statement and so sees one instant of a live database: nothing is compared across
two statements, and a row that moves meanwhile is never taken for a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import (
    BigIntegerField,
    Case,
    Count,
    Exists,
    Expression,
    F,
    Func,
    Max,
    OuterRef,
    Q,
    Sum,
    Value,
    When,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Abs, Cast, Coalesce, Greatest, Length

from budgets.rows import Now
from reports.errors import ErrorCode
from reports.models import TERMINAL, ReportJob, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

BIG = BigIntegerField()
BUDGET = "user__inference_budget__"
BOOKED = "day_utc", "spent_tokens", "reserved_tokens", "forgiven_tokens", "active_jobs"
ACTIVE = Q(status__in=[Status.QUEUED, Status.RUNNING])
# Endings that a job can meet without ever being claimed.
UNCLAIMED = (ErrorCode.CANCELLED, ErrorCode.QUEUE_EXPIRED)


@dataclass(frozen=True, slots=True)
class Fault:
    """One row that is not as it must be."""

    rule: str
    row: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.row}: expected {self.expected}, found {self.found}"


def check() -> Iterator[Fault]:
    """Find what is off, row by row; it knows no prompt, text or key."""
    yield from _duplicates()
    yield from _misclaimed()
    yield from _overdue()
    yield from _unsettled()
    yield from _adrift()
    yield from _spent_for_nothing()


def counted() -> tuple[int, int]:
    """How many jobs there are, and how many of them are active."""
    counts = ReportJob.objects.aggregate(jobs=Count("*"), active=Count("pk", filter=ACTIVE))
    return counts["jobs"], counts["active"]


def _duplicates() -> Iterator[Fault]:
    columns = "user_id", "idempotency_key"  # and no other, so that their index alone is read
    groups = ReportJob.objects.order_by().values(*columns).annotate(rows=Count("*"))
    for group in groups.filter(rows__gt=1):
        found = f"one of {group.pop('rows')} rows"
        for job in ReportJob.objects.filter(**group).only("user_id"):
            yield Fault("one row a key", _job(job.pk, job.user_id), "1 row", found)


def _misclaimed() -> Iterator[Fault]:
    """A claimed row that waits again would be called again; an outcome takes a claim."""
    put_back = Q(status=Status.QUEUED, started_at__isnull=False)  # a CHECK knows of the claim
    called = Q(status__in=[Status.RUNNING, Status.SUCCEEDED]) | (
        Q(status=Status.FAILED) & ~Q(error_code__in=UNCLAIMED)
    )
    never_claimed = called & (Q(claim_id__isnull=True) | Q(started_at__isnull=True))
    rows = ReportJob.objects.filter(put_back | never_claimed)
    for job in rows.only("user_id", "status", "error_code"):
        waits = job.status == Status.QUEUED
        yield Fault(
            "one call a row",
            _job(job.pk, job.user_id),
            "no claim" if waits else "a claim",
            f"{job.status} {job.error_code}".strip() + (" with one" if waits else " without one"),
        )


def _overdue() -> Iterator[Fault]:
    lease = timedelta(seconds=settings.INFERENCE_TIMEOUT_S + settings.LEASE_GRACE_S)
    sweeps = timedelta(seconds=2 * settings.SWEEP_INTERVAL_S)
    longest = timedelta(seconds=settings.QUEUE_TTL_S) + lease + sweeps
    too_old = ACTIVE & Q(created_at__lt=Now() - longest)
    unwanted = ACTIVE & Q(expires_at__lt=Now() - lease - sweeps)
    left_behind = Q(status=Status.RUNNING, lease_expires_at__lt=Now() - sweeps)
    rows = ReportJob.objects.filter(too_old | unwanted | left_behind)
    for job in rows.only("user_id", "status", "created_at", "lease_expires_at"):
        found = f"{job.status}, created {job.created_at.isoformat()}"
        if job.lease_expires_at is not None:
            found += f", lease until {job.lease_expires_at.isoformat()}"
        yield Fault("terminal in time", _job(job.pk, job.user_id), "a terminal row", found)


def _unsettled() -> Iterator[Fault]:
    # Not an inequality: PostgreSQL expects nearly every row from one, and then scans alone.
    off = Abs(F("settled_tokens") - F("rule"), output_field=BIG)
    rows = (
        ReportJob.objects.filter(status__in=TERMINAL)
        .annotate(rule=_charge(unreported=_estimated()), off=off)
        .filter(Q(off__gt=0) | Q(settled_tokens=None))
    )
    for row in rows.values("pk", "user_id", "settled_tokens", "rule"):
        yield Fault(
            "settled_tokens",
            _job(row["pk"], row["user_id"]),
            _amount(row["rule"]),
            _amount(row["settled_tokens"]),
        )


def _adrift() -> Iterator[Fault]:
    """Each user's budget row against the sum of that user's jobs.

    Texts are read once, for settled_tokens, which stands for them here.
    """
    day, spent, reserved, forgiven, active = (f"{BUDGET}{name}" for name in BOOKED)
    of_the_day = Q(day_utc=F(day))
    books = (
        ReportJob.objects.order_by()
        .values("user_id", day, spent, reserved, forgiven, active)
        .annotate(
            held=Coalesce(
                Sum("token_estimate", filter=of_the_day & ACTIVE), Value(0), output_field=BIG
            ),
            charged=Coalesce(
                Sum(_charge(unreported=F("settled_tokens")), filter=of_the_day),
                Value(0),
                output_field=BIG,
            ),
            counted=Count("pk", filter=ACTIVE),
            latest=Max("day_utc"),
        )
    )
    adrift = ~Q(charged=F(spent) + F(forgiven)) & _is_whole(day)
    miscounted = ~Q(**{active: F("counted")}) | ~Q(**{reserved: F("held")})
    ahead = Q(latest__gt=F(day))
    missing = Q(**{f"{day}__isnull": True}, counted__gt=0)
    for book in books.filter(adrift | miscounted | ahead | missing):
        yield from _faults_of(book, {name: book[f"{BUDGET}{name}"] for name in BOOKED})


def _faults_of(book: dict[str, Any], row: dict[str, Any]) -> Iterator[Fault]:
    user = f"user {book['user_id']}"
    day = row["day_utc"]
    if day is None:
        if book["counted"]:
            yield Fault("budget row", user, f"one, for {book['counted']} active jobs", "none")
        return
    of_day = f"{user} on {day}"
    spent = row["spent_tokens"] + row["forgiven_tokens"]
    if spent != book["charged"]:
        what = "spent_tokens + forgiven_tokens" if row["forgiven_tokens"] else "spent_tokens"
        yield Fault(what, of_day, _amount(book["charged"]), _amount(spent))
    if row["reserved_tokens"] != book["held"]:
        found = _amount(row["reserved_tokens"])
        yield Fault("reserved_tokens", of_day, _amount(book["held"]), found)
    if row["active_jobs"] != book["counted"]:
        yield Fault("active_jobs", user, str(book["counted"]), str(row["active_jobs"]))
    if book["latest"] > day:
        yield Fault("day_utc", user, f"{book['latest']} or later", str(day))


def _spent_for_nothing() -> Iterator[Fault]:
    """Budget rows of users who have no job at all, which the sums over jobs do not reach."""
    spent = Q(inference_budget__spent_tokens__gt=0) & _is_whole("inference_budget__day_utc")
    users = get_user_model().objects.filter(
        ~Exists(ReportJob.objects.filter(user_id=OuterRef("pk"))),
        spent | Q(inference_budget__active_jobs__gt=0),
    )
    names = "inference_budget__spent_tokens", "inference_budget__active_jobs"
    for user_id, tokens, active in users.values_list("pk", *names):
        found = f"{tokens} tokens, {active} active"
        yield Fault("budget row", f"user {user_id}", "0 tokens, 0 active", found)


def _charge(*, unreported: Case | F) -> Case:
    """What a job takes from its day, told from the row and not from how it was settled."""
    reported = Q(prompt_tokens__isnull=False, completion_tokens__isnull=False)
    # Two counts of 2^31-1 do not fit into the type that holds each.
    usage = Cast("prompt_tokens", BIG) + Cast("completion_tokens", BIG)
    return Case(
        When(ACTIVE, then=F("token_estimate")),
        When(Q(status=Status.SUCCEEDED) & reported, then=usage),
        When(status=Status.SUCCEEDED, then=unreported),
        When(error_code=ErrorCode.CANCELLED, started_at__isnull=False, then=F("token_estimate")),
        default=Value(0),
        output_field=BIG,
    )


def _estimated() -> Case:
    """The charge where the provider reported none, as far as the texts are still there."""
    # Of what was asked in messages the prompt is a part.
    asked = Cast(KeyTextTransform("characters", "openai_request"), BIG)
    said = _estimate(Coalesce(asked, Length("prompt"), output_field=BIG))
    texts = said + _estimate(Length("result_text"))
    return Case(When(erased_at=None, then=texts), default=F("settled_tokens"), output_field=BIG)


def _estimate(characters: Expression | Func) -> Greatest:
    return Greatest(Value(1), Cast(characters / 4, BIG), output_field=BIG)


def _is_whole(day: str) -> Q:
    """Whether all jobs of that day are still there: KEY_RETENTION_DAYS deletes old ones."""
    if not settings.KEY_RETENTION_DAYS:
        return Q()
    return Q(**{f"{day}__gt": Now() - timedelta(days=settings.KEY_RETENTION_DAYS)})


def _job(job_id: UUID | str, user_id: int) -> str:
    return f"job {UUID(str(job_id))} of user {user_id}"


def _amount(tokens: int | None) -> str:
    return "none" if tokens is None else f"{tokens} tokens"
