"""How a job can end: what a reader is told, what may still be billed, what the day is charged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from budgets.envelope import estimate_tokens
from reports.errors import ErrorCode

if TYPE_CHECKING:
    from datetime import date
    from uuid import UUID

    from reports.models import ReportJob
    from reports.transitions import Claim

CLIENT_CLOSED = 499  # nginx's number for a client that left
ENDINGS = {
    ErrorCode.WORKER_LOST: (
        500,
        "The worker that held this job died. Whether the model answered is unknown.",
    ),
    ErrorCode.QUEUE_EXPIRED: (503, "No worker was free in time, so the model was never called."),
    ErrorCode.CANCELLED: (CLIENT_CLOSED, "Cancelled."),
    ErrorCode.INTERNAL_ERROR: (
        500,
        "Something broke on our side while this job ran. It has been logged.",
    ),
}

# A quarter of the estimate, for prompts long enough that the estimate means something.
FAR_BELOW = 4
LEAST_COMPARED = 256
# Endings after which nobody knows whether the model answered, and so whether somebody bills it.
UNANSWERED = frozenset(
    {
        ErrorCode.PROVIDER_TIMEOUT,
        ErrorCode.PROVIDER_UNREACHABLE,
        ErrorCode.PROVIDER_INVALID_RESPONSE,
        ErrorCode.WORKER_LOST,
        ErrorCode.INTERNAL_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an ending does to the budget of the day on which the job reserved."""

    job_id: UUID
    user_id: int
    day_utc: date
    reserved: int
    used: int

    @classmethod
    def releasing(cls, job: ReportJob | Claim) -> Settlement:
        """Give the whole reservation back."""
        return cls.charging(job, 0)

    @classmethod
    def keeping(cls, job: ReportJob | Claim) -> Settlement:
        """Keep the whole reservation."""
        return cls.charging(job, job.token_estimate)

    @classmethod
    def charging(cls, job: ReportJob | Claim, used: int) -> Settlement:
        """Put this in the reservation's place."""
        job_id: UUID = getattr(job, "job_id", None) or cast("ReportJob", job).pk
        return cls(job_id, job.user_id, job.day_utc, reserved=job.token_estimate, used=used)


def is_far_below(prompt_tokens: int, text: str) -> bool:
    """Whether a server counted so little that it must have cut the prompt, as some do silently."""
    estimate = estimate_tokens(text)
    return estimate >= LEAST_COMPARED and prompt_tokens * FAR_BELOW < estimate
