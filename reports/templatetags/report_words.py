"""The words of the pages: what became of a report, and numbers as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils import timezone

from reports import markdown
from reports.errors import ErrorCode
from reports.timeline import What

if TYPE_CHECKING:
    from datetime import datetime

    from django.utils.safestring import SafeString

    from reports.models import ReportJob

# What a state is called, and what a screen reader is told when a report enters it.
STATES = {
    "queued": ("Waiting", "Your report is waiting for its turn."),
    "running": ("Running", "Your report is running."),
    "succeeded": ("Ready", "Your report is ready."),
    "failed": ("Failed", "Your report failed."),
    "cancelled": ("Cancelled", "Your report was cancelled."),
    "erased": ("Erased", "The texts of this report were erased."),
}
REASONS = {
    ErrorCode.PROVIDER_5XX: "The model's server reported a fault of its own.",
    ErrorCode.PROVIDER_REJECTED: "The model's server refused the request.",
    ErrorCode.PROVIDER_TIMEOUT: "The model took longer than it is allowed to.",
    ErrorCode.PROVIDER_UNREACHABLE: "The model's server could not be reached.",
    ErrorCode.PROVIDER_INVALID_RESPONSE: "The model's server sent an answer that makes no sense.",
    ErrorCode.WORKER_LOST: "The process that worked on this report died.",
    ErrorCode.QUEUE_EXPIRED: "Nobody was free to work on this report in time.",
    ErrorCode.CANCELLED: "It was stopped before it ended.",
    ErrorCode.INTERNAL_ERROR: "Something broke on our side.",
}
STEPS = {
    What.ACCEPTED: "Accepted",
    What.PUBLISHED: "Handed to the queue",
    What.CLAIMED: "Taken up by a worker",
    What.PUT_OFF: "Put off",
    What.REPUBLISHED: "Handed to the queue again",
    What.SUCCEEDED: "Ready",
    What.FAILED: "Failed",
    What.CANCELLED: "Cancelled",
    What.ERASED: "Texts erased",
}
# Models whose answers need a word of warning.
MODEL_NOTES = {
    "gemma-3-270m": (
        "a pretrained model of 270 million parameters. It continues a text rather than "
        "answering it, and its prose is poor."
    ),
}

register = template.Library()


@register.filter
def state(job: ReportJob) -> str:
    """Which of the states of STATES a reader sees."""
    if job.is_erased:
        return "erased"
    return "cancelled" if job.error_code == ErrorCode.CANCELLED else job.status


@register.filter
def state_word(name: str) -> str:
    """A state as a heading."""
    return STATES[name][0]


@register.filter
def state_sentence(name: str) -> str:
    """A state as an announcement."""
    return STATES[name][1]


@register.filter
def state_icon(name: str) -> str:
    """A state as the icon of a tab."""
    return f"icon-{name}.svg"


@register.filter
def step_word(what: str) -> str:
    """A step of a timeline in words."""
    return STEPS[What(what)]


@register.filter
def reason(job: ReportJob) -> str:
    """Why a failed report failed."""
    return REASONS[ErrorCode(job.error_code)]


@register.filter
def model_note(model: str) -> str:
    """What a reader should know of a model; empty for one that we know nothing of."""
    return MODEL_NOTES.get(model, "")


@register.filter
def grouped(number: int) -> str:
    """12345 as 12,345."""
    return f"{number:,}"


@register.filter
def age_s(since: datetime) -> int:
    """Whole seconds since an instant."""
    return max(0, int((timezone.now() - since).total_seconds()))


@register.filter
def duration(seconds: int) -> str:
    """75 as `1 min 15 s`; the script that keeps counting writes the same words."""
    minutes, rest_s = divmod(seconds, 60)
    hours, rest_min = divmod(minutes, 60)
    if hours:
        return f"{hours} h {rest_min} min"
    return f"{minutes} min {rest_s} s" if minutes else f"{rest_s} s"


@register.filter
def took_s(job: ReportJob) -> int | None:
    """Whole seconds from the claim to the end; None for a job that nobody claimed."""
    if job.started_at is None or job.finished_at is None:
        return None
    return max(0, int((job.finished_at - job.started_at).total_seconds()))


@register.filter
def as_html(text: str) -> SafeString | None:
    """Markdown as HTML; None for a text that must be shown as it is."""
    return markdown.render(text)
