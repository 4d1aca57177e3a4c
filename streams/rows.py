"""What streams read: one statement for all jobs that somebody watches, however many watch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.db import connections

from reports.models import ReportJob
from streams import frames, marks, rights

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from streams.rights import Right


@dataclass(frozen=True, slots=True)
class State:
    """A job's state: the word for it, the event that tells it, and whether it is the last."""

    word: str
    event: bytes = field(repr=False)
    is_last: bool


# By job. None: it is gone, or its texts are.
States = dict["UUID", State | None]


def changed(known: dict[UUID, str], watchers: Collection[Right]) -> tuple[States, set[Right]]:
    """Of these jobs those whose state is another now, and of these watchers who may not look."""
    try:
        columns = ("pk", "updated_at", "status", "erased_at")
        rows = ReportJob.objects.filter(pk__in=known).values_list(*columns)
        now = {pk: "" if erased else marks.state(at, word) for pk, at, word, erased in rows}
        moved = [job_id for job_id, state in known.items() if now.get(job_id) != state]
        return _states(moved), rights.lost(watchers)
    finally:
        connections.close_all()


def states(job_ids: Collection[UUID]) -> States:
    """The present state of these jobs."""
    try:
        return _states(job_ids)
    finally:
        connections.close_all()


def _states(job_ids: Collection[UUID]) -> States:
    found: States = dict.fromkeys(job_ids)
    if found:
        for job in ReportJob.objects.filter(pk__in=found, erased_at=None).with_jobs_ahead():
            found[job.pk] = State(marks.state_of(job), frames.status(job), job.is_terminal)
    return found
