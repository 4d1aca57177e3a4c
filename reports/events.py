"""What is told of a job's life, to whoever runs the product: one line and one count a transition.

Only ids and words of ours are told. It is called once the transition is committed, never before.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.conf import settings

from reports import hints
from reports.endings import UNANSWERED
from reports.errors import BudgetExhausted, ErrorCode, ExceedsDailyBudget, TooManyActiveJobs
from telemetry import meters, traces

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from reports.errors import Refusal
    from reports.models import ReportJob
    from reports.provider import Completion, Failure

LIMITS = (ExceedsDailyBudget, BudgetExhausted, TooManyActiveJobs)
SUCCEEDED = "succeeded"
FAILED = "failed"
# Endings that are called by another word than `failed`.
ENDINGS = {
    "": SUCCEEDED,
    ErrorCode.CANCELLED: "cancelled",
    ErrorCode.QUEUE_EXPIRED: "expired",
    ErrorCode.WORKER_LOST: "lost",
}
SWEPT = ("lost", "expired", "republished", "erased", "deleted")

logger = logging.getLogger("reports.jobs")


def begin() -> None:
    """Tell of what has not happened yet as 0: otherwise nobody sees the first one happen."""
    for kind in ("new", "replay"):
        meters.accepts.labels(kind)
    for refusal in LIMITS:
        meters.refusals.labels(refusal.code)
    meters.ends.labels(SUCCEEDED, "")
    for code in ErrorCode:
        meters.ends.labels(FAILED, code.value)
    for code in UNANSWERED:
        meters.unclear_ends.labels(code.value)
    for outcome in ("taken", "not_taken"):
        meters.publishes.labels(outcome)
    for what in SWEPT:
        meters.swept.labels(what)
    meters.calls.labels(SUCCEEDED)


def accepted(job_id: UUID, *, is_new: bool, began_ns: int) -> None:
    """A POST was answered 202."""
    meters.accepts.labels("new" if is_new else "replay").inc()
    traces.record("accept" if is_new else "replay", job_id, began_ns=began_ns, is_root=is_new)
    _say("accepted" if is_new else "replayed", job_id)


def refused(refusal: Refusal) -> None:
    """A budget or a limit refused a job; there is none to name."""
    meters.refusals.labels(refusal.code).inc()


def claimed(job: ReportJob) -> None:
    """A worker has the job. Of a second try the wait is not its queue's doing."""
    if job.attempts == 1 and job.started_at is not None:
        meters.claims.observe((job.started_at - job.created_at).total_seconds())
    hints.changed(job.pk)
    _say("claimed", job.pk, "running")


def called(job_id: UUID, outcome: Completion | Failure, *, took_s: float, began_ns: int) -> None:
    """The provider was asked, and this came of it."""
    code = str(getattr(outcome, "code", ""))
    meters.calls.labels(code or SUCCEEDED).observe(took_s)
    traces.record("call", job_id, began_ns=began_ns, code=code)
    usage = getattr(outcome, "usage", None)
    if usage is not None:
        meters.tokens.labels("prompt").inc(usage.prompt_tokens)
        meters.tokens.labels("completion").inc(usage.completion_tokens)


def ended(job_id: UUID, error_code: object, *, is_unclear: bool) -> None:
    """The job failed with this code, or succeeded; unclear when the provider may bill it."""
    code = str(error_code or "")
    hints.changed(job_id, is_over=True)
    meters.ends.labels(FAILED if code else SUCCEEDED, code).inc()
    if is_unclear:
        meters.unclear_ends.labels(code).inc()
    words = f"failed {code}" if code else SUCCEEDED
    _say(ENDINGS.get(code, FAILED), job_id, words, code=code)


def overspent(job_id: UUID, *, used: int, reserved: int) -> None:
    """The provider reports more than was reserved; the day is charged for what it reports."""
    # Where no limit is sent, a reservation covers the prompt alone and is often exceeded.
    is_limited = settings.INFERENCE_MAX_OUTPUT_TOKENS > 0
    level = logging.WARNING if is_limited else logging.INFO
    message = "job %s: the provider used %d tokens of %d reserved"
    extra = {"event": "overspent", "job_id": job_id}
    logger.log(level, message, job_id, used, reserved, extra=extra)


def postponed(job_id: UUID, *, code: str, wait_s: float) -> None:
    """The job waits for another try."""
    meters.postponed.labels(code).inc()
    hints.changed(job_id)
    _say("postponed", job_id, f"queued again for {wait_s:.0f} s: {code}", code=code)


def dropped(job_id: UUID) -> None:
    """The job had moved on when its outcome came."""
    meters.dropped_outcomes.inc()
    _say("dropped", job_id, "had moved on; its late outcome was dropped", level=logging.WARNING)


def republished(job_id: UUID) -> None:
    """The sweep took the job's message for lost and sent another."""
    _say("republished", job_id)


def erased(jobs: Sequence[ReportJob]) -> None:
    """The texts of these jobs are gone."""
    for job in jobs:
        _say("erased", job.pk)


def swept(moved: dict[str, int], *, took_s: float) -> None:
    """A pass of the sweep is over and moved so many rows in each way."""
    meters.sweeps.observe(took_s)
    for what, rows in moved.items():
        meters.swept.labels(what).inc(rows)
    if any(moved.values()):
        said = " ".join(f"{what}={n}" for what, n in moved.items() if n)
        logger.info("sweep %s", said, extra={"event": "swept"})


def published(job_id: UUID, *, was_taken: bool, began_ns: int) -> None:
    """An id was offered to the broker."""
    code = "" if was_taken else "not_taken"
    traces.record("publish", job_id, began_ns=began_ns, code=code)
    meters.publishes.labels("taken" if was_taken else "not_taken").inc()


def _say(
    event: str, job_id: UUID, words: str = "", *, code: str = "", level: int = logging.INFO
) -> None:
    told = {"event": event, "job_id": job_id, **({"code": code} if code else {})}
    logger.log(level, "job %s %s", job_id, words or event, extra=told)
