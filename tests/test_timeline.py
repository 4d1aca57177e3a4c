"""A job's life as its row tells it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from reports import acceptance, ids, runner, timeline, transitions
from reports.errors import ErrorCode
from reports.models import ReportJob
from reports.provider import Failure
from reports.transitions import Claim
from tests.support.provider import Answer
from tests.support.rows import job_in, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db


def told(job: ReportJob) -> list[tuple[str, str]]:
    """The words and details of a job's timeline, whose instants are in order and not far apart."""
    job.refresh_from_db()
    steps = timeline.steps(job)
    instants = [step.at for step in steps]
    # The database writes microseconds in one place and milliseconds in the other.
    assert instants == sorted(instants) or max(instants) - min(instants) < timedelta(seconds=1)
    assert {instant.utcoffset() for instant in instants} == {timedelta(0)}
    return [(step.what, step.detail) for step in steps]


def accepted(ada: Api) -> ReportJob:
    """A job that was just accepted."""
    return ReportJob.objects.get(
        pk=acceptance.accept(ada.user_id, key="key", prompt="a" * 40).job_id
    )


@pytest.mark.django_db(transaction=True)
def test_a_job_that_ran_tells_its_life(ada: Api, provider: Provider):
    provider.script(
        Answer.of({"text": "hi", "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    )
    job = accepted(ada)
    published_at = datetime.now(UTC)

    runner.run(job.pk, published_at=published_at)

    assert told(job) == [
        ("accepted", "10 tokens reserved"),
        ("published", ""),
        ("claimed", ""),
        ("succeeded", "7 of 10 reserved tokens charged"),
    ]
    assert timeline.steps(job)[1].at == published_at
    assert abs(timeline.steps(job)[-1].at - job.finished_at) < timedelta(milliseconds=2)  # type: ignore[operator]


def test_a_job_that_was_put_off_and_published_again_tells_so(ada: Api):
    job = job_in("running", user=ada.user)

    assert transitions.postpone(Claim.of(job), wait_s=0)
    job.refresh_from_db()
    assert transitions.republish(job, again_after_s=60)
    held = transitions.claim(job.pk)
    assert held is not None
    transitions.fail(held, Failure(ErrorCode.PROVIDER_5XX, 503, "It answered 503."))

    assert told(job)[1:] == [
        ("put_off", "for 0 s"),
        ("republished", ""),
        ("claimed", ""),
        ("failed", "provider_5xx, 0 of 10 reserved tokens charged"),
    ]


@pytest.mark.parametrize(
    ("status", "how", "line"),
    [
        ("queued", transitions.cancel, "by its owner, 0 of 10 reserved tokens charged"),
        ("running", transitions.cancel, "by its owner, 10 of 10 reserved tokens charged"),
        (
            "queued",
            lambda job: transitions.cancel(job, by="an operator"),
            "by an operator, 0 of 10 reserved tokens charged",
        ),
    ],
)
def test_a_cancelled_job_tells_by_whom(
    ada: Api, status: str, how: Callable[[ReportJob], bool], line: str
):
    job = job_in(status, user=ada.user)

    assert how(job)

    assert told(job)[1:] == [("cancelled", line)]


def test_a_timeline_outlives_the_texts_and_holds_none(ada: Api):
    job = job_in("succeeded", user=ada.user, prompt="the secret of the coat check")

    transitions.erase(job)

    assert told(job)[1:] == [("erased", "")]
    assert "secret" not in str(row(job)["timeline"])


@pytest.mark.parametrize(
    ("code", "retry_after_s", "is_unclear"),
    [
        (ErrorCode.PROVIDER_TIMEOUT, None, True),
        (ErrorCode.PROVIDER_TIMEOUT, 0, False),  # nobody was reached, so nobody worked
        (ErrorCode.PROVIDER_UNREACHABLE, None, True),
        (ErrorCode.PROVIDER_UNREACHABLE, 0, False),
        (ErrorCode.PROVIDER_INVALID_RESPONSE, None, True),
        (ErrorCode.PROVIDER_5XX, None, False),
        (ErrorCode.PROVIDER_REJECTED, None, False),
    ],
)
def test_an_end_is_unclear_when_the_call_may_have_been_answered(
    ada: Api, code: ErrorCode, retry_after_s: int | None, is_unclear: bool
):
    job = job_in("running", user=ada.user)

    transitions.fail(Claim.of(job), Failure(code, 500, "why", retry_after_s))

    assert row(job)["is_unclear"] is is_unclear


def broken_off(job: ReportJob) -> bool:
    """Our own fault, after the claim."""
    return transitions.break_off(Claim.of(job), ErrorCode.INTERNAL_ERROR)


@pytest.mark.parametrize(
    ("status", "how", "is_unclear"),
    [
        ("running", transitions.give_up, True),
        (
            "running",
            lambda job: transitions.break_off(Claim.of(job), ErrorCode.INTERNAL_ERROR),
            True,
        ),
        ("running", transitions.cancel, False),  # it keeps its reservation
        ("queued", transitions.cancel, False),
    ],
)
def test_an_end_of_ours_is_unclear_once_the_call_was_made(
    ada: Api, status: str, how: Callable[[ReportJob], bool], is_unclear: bool
):
    job = job_in(status, user=ada.user)

    assert how(job)

    assert row(job)["is_unclear"] is is_unclear


def test_an_id_tells_when_it_was_made():
    before = datetime.now(UTC) - timedelta(milliseconds=1)

    made_at = ids.made_at(str(ids.uuid7()))

    assert made_at is not None
    assert before <= made_at <= datetime.now(UTC)


@pytest.mark.parametrize("foreign", ["", "none", "0b6f1bb8-0f0a-4c43-a2b8-000000000000", "x" * 99])
def test_an_id_that_is_none_of_ours_tells_nothing(foreign: str):
    assert ids.made_at(foreign) is None
