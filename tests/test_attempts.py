"""Second tries: opt-in, only where the provider certainly did no work, through the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db.models import F

from reports import runner, sweep, transitions
from reports.models import ReportJob
from reports.provider import retry_after
from tests.support.provider import Answer
from tests.support.rows import ESTIMATE, budget, job_in, row

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)

BUSY = Answer(status=429, headers={"Retry-After": "30"})


@pytest.fixture
def three_attempts(settings: Settings) -> None:
    settings.INFERENCE_MAX_ATTEMPTS = 3


def let_the_wait_pass(job: ReportJob) -> None:
    back = timedelta(hours=1)
    ReportJob.objects.filter(pk=job.pk).update(
        try_after=F("try_after") - back, publish_again_at=F("publish_again_at") - back
    )


def test_one_job_is_one_request_unless_asked_otherwise(ada: Api, provider: Provider):
    provider.script(BUSY)
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)

    job.refresh_from_db()
    assert (job.status, job.error_code, job.attempts) == ("failed", "provider_rejected", 1)
    assert len(provider.calls) == 1


@pytest.mark.usefixtures("three_attempts")
def test_a_busy_provider_is_asked_again_after_its_wait(ada: Api, provider: Provider):
    provider.script(BUSY, Answer())
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)
    runner.run(job.pk)  # a copy of the message does not shorten the wait

    waiting = row(job)
    assert (waiting["status"], waiting["attempts"], len(provider.calls)) == ("queued", 1, 1)
    assert (waiting["claim_id"], waiting["started_at"]) == (None, None)
    assert budget(ada.user)["spent_tokens"] == ESTIMATE

    let_the_wait_pass(job)
    runner.run(job.pk)

    job.refresh_from_db()
    assert (job.status, job.attempts, len(provider.calls)) == ("succeeded", 2, 2)


@pytest.mark.usefixtures("three_attempts")
def test_tries_end_at_their_number(ada: Api, provider: Provider):
    provider.script(BUSY, BUSY, BUSY, BUSY)
    job = job_in("queued", user=ada.user)

    for _ in range(5):
        runner.run(job.pk)
        let_the_wait_pass(job)

    job.refresh_from_db()
    assert (job.status, job.error_code, len(provider.calls)) == ("failed", "provider_rejected", 3)
    assert budget(ada.user)["spent_tokens"] == 0


@pytest.mark.usefixtures("three_attempts")
def test_a_provider_that_cannot_be_reached_is_tried_again(ada: Api, settings: Settings):
    settings.INFERENCE_URL = "http://127.0.0.1:9/complete"
    runner.config.cache_clear()
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)

    assert (row(job)["status"], row(job)["attempts"]) == ("queued", 1)


@pytest.mark.usefixtures("three_attempts")
@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=429),
        Answer(status=500, headers={"Retry-After": "1"}),
        Answer(status=503),
        Answer(status=400, headers={"Retry-After": "1"}),
        Answer(body=b"not json"),
        Answer(reset_after=0),
    ],
    ids=["429 bare", "500", "503 bare", "400", "invalid", "reset"],
)
def test_a_call_that_may_have_been_made_is_never_made_again(
    ada: Api, provider: Provider, answer: Answer
):
    provider.script(answer)
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)

    job.refresh_from_db()
    assert job.status == "failed"
    assert len(provider.calls) == 1


@pytest.mark.usefixtures("three_attempts")
def test_a_wait_beyond_the_queue_limit_is_not_begun(ada: Api, provider: Provider):
    provider.script(Answer(status=503, headers={"Retry-After": "9999999999"}))
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)

    job.refresh_from_db()
    assert (job.status, job.error_code, job.http_status) == ("failed", "provider_5xx", 503)


@pytest.mark.usefixtures("three_attempts")
def test_the_sweep_publishes_a_job_whose_wait_is_over(ada: Api, provider: Provider, broker):
    provider.script(BUSY)
    job = job_in("queued", user=ada.user)
    runner.run(job.pk)

    assert sweep.sweep().republished == 0
    let_the_wait_pass(job)

    assert sweep.sweep().republished == 1
    assert broker.llen("jobs") == 1


def test_a_stale_claim_postpones_nothing(ada: Api):
    job = job_in("running", user=ada.user)
    stale = transitions.Claim.of(job)
    transitions.cancel(job)
    before = row(job)

    assert transitions.postpone(stale, wait_s=1) is False
    assert row(job) == before


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("30", 30),
        (" 5 ", 5),
        ("0", 0),
        ("-5", 0),
        ("1.5", 0),
        ("abc", 0),
        ("", 0),
        ("5, 10", 0),
        ("\u0663", 0),
        ("9999999999", 86400),
        ("9" * 5000, 86400),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2065 07:28:00 GMT", 86400),
        ("Wed, 99 Oct 2015 07:28:00 GMT", 0),
    ],
)
def test_retry_after_is_clamped_whatever_it_says(value: str | None, expected: int | None):
    assert retry_after.seconds(value) == expected
