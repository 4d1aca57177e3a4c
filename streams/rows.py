"""What streams read: one statement for all jobs that somebody watches, however many watch."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connections

from reports.models import ReportJob
from streams import marks, rights
from streams.dialects import AnyDialect, AnyState, State

if TYPE_CHECKING:
    from collections.abc import Collection

    from streams.rights import Right

# What somebody watches: a job, in a dialect.
Topic = tuple[UUID, AnyDialect]
# None: the job is gone, or its texts are.
States = dict[Topic, AnyState | None]


def changed(known: dict[Topic, str], watchers: Collection[Right]) -> tuple[States, set[Right]]:
    """Of these those whose state is another now, and of these watchers who may not look."""
    try:
        columns = ("pk", "updated_at", "status", "erased_at")
        rows = ReportJob.objects.filter(pk__in=_jobs(known)).values_list(*columns)
        now = {pk: "" if erased else marks.state(at, word) for pk, at, word, erased in rows}
        moved = [topic for topic, state in known.items() if now.get(topic[0]) != state]
        return _states(moved), rights.lost(watchers)
    finally:
        connections.close_all()


def states(topics: Collection[Topic]) -> States:
    """The present state of these."""
    try:
        return _states(topics)
    finally:
        connections.close_all()


def _states(topics: Collection[Topic]) -> States:
    found: States = dict.fromkeys(topics)
    if found:
        rows = ReportJob.objects.filter(pk__in=_jobs(found), erased_at=None).with_jobs_ahead()
        jobs = {job.pk: job for job in rows}
        for job_id, dialect in topics:
            if job := jobs.get(job_id):
                word = marks.state_of(job)
                found[job_id, dialect] = State(word, dialect.say(job), job.is_terminal)
    return found


def _jobs(topics: Collection[Topic]) -> set[UUID]:
    return {job_id for job_id, _ in topics}
