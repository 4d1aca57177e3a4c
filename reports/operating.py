"""What operators do to jobs that they chose: bounded, counted, and on record with a name."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry

from budgets import asking
from reports import dispatch, transitions
from reports.errors import JobActive, JobFinished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from django.contrib.auth.models import User

    from reports.models import ReportJob

# Of one action; what is left is told.
LONGEST_S = 15.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that an operator may do to a job, and the words for it."""

    name: str
    order: str
    move: Callable[[ReportJob], bool]
    done: str
    why_not: str
    # What cannot be undone; empty where nothing is lost.
    warning: str = ""


def _cancel(job: ReportJob) -> bool:
    return transitions.cancel(job, by="an operator")


def _publish_again(job: ReportJob) -> bool:
    if not transitions.republish(job, again_after_s=settings.REDISPATCH_AFTER_S, is_early=True):
        return False
    return dispatch.publish(job.pk)


CANCEL = Act(
    name="cancel",
    order="Cancel",
    move=_cancel,
    done="cancelled",
    why_not="having ended before",
    warning=(
        "They end as cancelled. A job that waits gives its reservation back; one that runs keeps "
        "it, since its call may be billed, and its answer is thrown away."
    ),
)
FAIL_AS_LOST = Act(
    name="fail_as_lost",
    order="Fail as worker_lost",
    move=transitions.give_up,
    done="failed as lost",
    why_not="not running",
    warning=(
        "Those that run end as worker_lost, whatever their lease says, and give their reservations "
        "back. Do this only when their worker is known to be gone: an answer that still comes is "
        "thrown away, and may be billed."
    ),
)
PUBLISH_AGAIN = Act(
    name="publish_again",
    order="Publish again",
    move=_publish_again,
    done="published again",
    why_not="not waiting, or not taken by the broker",
)
ERASE = Act(
    name="erase",
    order="Erase prompts and texts of",
    move=transitions.erase,
    done="erased",
    why_not="not ended yet, or erased before",
    warning=(
        "Their prompts and texts are erased for good, for their owners too. The rows stay, and "
        "their keys stay used."
    ),
)


def carry_out(act: Act, jobs: Sequence[ReportJob], *, operator: User) -> str:
    """Do it to each of the jobs, and say in a sentence how many moved and how many did not."""
    give_up_at = time.monotonic() + LONGEST_S
    moved = tried = 0
    for job in jobs[: asking.MOST_ROWS]:
        if time.monotonic() > give_up_at:
            break
        tried += 1
        if _is_moved(act, job):
            moved += 1
            put_on_record(job, operator=operator, words=act.done)
    words = f"{moved} {act.done}"
    if moved < tried:
        words += f"; {tried - moved} not, {act.why_not}"
    if tried < len(jobs):
        words += "; the others were not tried: these were as many as one action takes"
    return f"{words}."


def put_on_record(job: ReportJob, *, operator: User, words: str) -> None:
    """Write down who did what to a job, in the admin's history and in the log: never its texts."""
    LogEntry.objects.log_actions(operator.pk, [job], CHANGE, f"{words.capitalize()}.")
    logger.info("operator %s: job %s %s", operator.pk, job.pk, words)


def _is_moved(act: Act, job: ReportJob) -> bool:
    try:
        return act.move(job)
    except (JobActive, JobFinished):
        return False
