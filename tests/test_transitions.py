"""Every change of a job: which may happen in which state, who may make it, what it costs."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now

from budgets.models import InferenceBudget
from reports import digests, sweep, transitions
from reports.errors import ErrorCode, JobActive, JobFinished
from reports.models import ReportJob, Status
from reports.provider import Completion, Failure, Usage
from reports.transitions import Claim
from tests.support.expect import assert_nothing_written, assert_unchanged
from tests.support.rows import ESTIMATE, budget, give_budget, job_in, row, today
from tests.support.threads import begin, together, until_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
on_real_connections = pytest.mark.django_db(transaction=True)
needs_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite cannot be asked who waits for whom"
)
COMPLETION = Completion(text="a" * 40, finish_reason="stop", usage=Usage(2, 6))
FAILURE = Failure(ErrorCode.PROVIDER_5XX, 503, "It answered 503.")
HOUR_S = 3600


def claim_of(job: ReportJob) -> Claim:
    """The claim of a row; one that was never made for a row that was never claimed."""
    if job.claim_id is None:
        job = ReportJob.objects.get(pk=job.pk)
        job.claim_id = uuid4()
    return Claim.of(job)


def republish(job: ReportJob) -> bool:
    """As the sweep calls it."""
    return transitions.republish(job, again_after_s=60)


def republish_early(job: ReportJob) -> bool:
    """As an operator calls it."""
    return transitions.republish(job, again_after_s=60, is_early=True)


# Each with the right to move a job that is old enough for all of them.
TRANSITIONS: dict[str, Callable[[ReportJob], Any]] = {
    "claim": lambda job: transitions.claim(job.pk),
    "succeed": lambda job: transitions.succeed(claim_of(job), COMPLETION),
    "fail": lambda job: transitions.fail(claim_of(job), FAILURE),
    "postpone": lambda job: transitions.postpone(claim_of(job), wait_s=1),
    "break_off": lambda job: transitions.break_off(claim_of(job), ErrorCode.INTERNAL_ERROR),
    "lose": transitions.lose,
    "give_up": transitions.give_up,
    "expire": transitions.expire,
    "republish": republish,
    "republish_early": republish_early,
    "cancel": transitions.cancel,
    "erase": transitions.erase,
}
# The whole of CONTRACT section 2: what may move, and the status afterwards.
MAY_MOVE = {
    ("queued", "claim"): "running",
    ("queued", "expire"): "failed",
    ("queued", "cancel"): "failed",
    ("queued", "republish"): "queued",
    ("queued", "republish_early"): "queued",
    ("running", "succeed"): "succeeded",
    ("running", "fail"): "failed",
    ("running", "postpone"): "queued",  # only with INFERENCE_MAX_ATTEMPTS
    ("running", "break_off"): "failed",
    ("running", "lose"): "failed",
    ("running", "give_up"): "failed",
    ("running", "cancel"): "failed",
    ("succeeded", "erase"): "succeeded",
    ("failed", "erase"): "failed",
}
# How a transition says that it moved nothing, where that is more than False or None.
NOT_MOVED = {"cancel": (JobFinished,), "erase": (JobActive,)}


def age_for(name: str) -> int:
    """Old rows can only end, and young ones only be claimed or put off; all leases have run out."""
    return HOUR_S // 2 if name in {"claim", "postpone", "republish_early"} else HOUR_S + 1


def answer_of(name: str, job: ReportJob) -> object:
    """What a transition returns, or the kind of refusal that it raises."""
    try:
        return TRANSITIONS[name](job)
    except (JobFinished, JobActive) as refusal:
        return type(refusal)


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("status", Status.values)
def test_a_job_moves_only_as_the_contract_says(ada: Api, status: str, name: str):
    job = job_in(status, user=ada.user, age_s=age_for(name))

    if (status, name) in MAY_MOVE:
        assert TRANSITIONS[name](job)
        job.refresh_from_db()
        assert job.status == MAY_MOVE[status, name]
    else:
        with assert_unchanged(job):
            answer = answer_of(name, job)
        assert answer in NOT_MOVED.get(name, (False, None))


@pytest.mark.parametrize(
    ("name", "of_another_claim"),
    [
        ("succeed", lambda job: transitions.succeed(another_claim(job), COMPLETION)),
        ("fail", lambda job: transitions.fail(another_claim(job), FAILURE)),
        (
            "break_off",
            lambda job: transitions.break_off(another_claim(job), ErrorCode.WORKER_LOST),
        ),
        ("lose", lambda job: transitions.lose(read_before_claim(job))),
        ("give_up", lambda job: transitions.give_up(read_before_claim(job))),
    ],
)
def test_a_stale_claim_writes_nothing(
    ada: Api, name: str, of_another_claim: Callable[[ReportJob], bool]
):
    job = job_in("running", user=ada.user, age_s=HOUR_S)

    with assert_unchanged(job):
        assert of_another_claim(job) is False

    assert TRANSITIONS[name](job) is True


def another_claim(job: ReportJob) -> Claim:
    """A claim on the same job that is not the one which holds it."""
    return dataclasses.replace(Claim.of(job), claim_id=uuid4())


def read_before_claim(job: ReportJob) -> ReportJob:
    """The row as somebody read it who looked while another claim held it."""
    stale = ReportJob.objects.get(pk=job.pk)
    stale.claim_id = uuid4()
    return stale


def test_claim_hands_over_the_job_and_a_lease(ada: Api, settings: Settings):
    settings.INFERENCE_TIMEOUT_S, settings.LEASE_GRACE_S = 45.5, 15
    job = job_in("queued", user=ada.user, age_s=100)
    before = row(job)

    held = transitions.claim(job.pk)

    after = row(job)
    assert held == Claim(
        job_id=job.pk,
        claim_id=after["claim_id"],  # type: ignore[arg-type]
        user_id=ada.user_id,
        token_estimate=ESTIMATE,
        day_utc=today(),
        attempts=1,
        prompt=job.prompt,
    )
    job.refresh_from_db()
    assert job.started_at == job.updated_at
    assert job.started_at is not None
    assert job.lease_expires_at == job.started_at + timedelta(seconds=60.5)
    assert abs(datetime.now(UTC) - job.started_at) < timedelta(seconds=5)
    moved = {name for name in after if after[name] != before[name]}
    times = {"started_at", "updated_at", "lease_expires_at"}
    assert moved == {"status", "claim_id", "attempts", "timeline", *times}
    assert budget(ada.user)["active_jobs"] == 1
    assert budget(ada.user)["spent_tokens"] == ESTIMATE


def test_a_claim_does_not_print_its_prompt(ada: Api):
    job = job_in("running", user=ada.user, prompt="the secret of the coat check")

    assert "secret" not in repr(Claim.of(job))


@pytest.mark.parametrize(("age_s", "is_claimed"), [(58, True), (61, False)])
def test_a_claim_refuses_what_waited_too_long(
    ada: Api, settings: Settings, age_s: int, is_claimed: bool
):
    settings.QUEUE_TTL_S = 60
    job = job_in("queued", user=ada.user, age_s=age_s)

    assert (transitions.claim(job.pk) is not None) is is_claimed
    # What a claim refuses the sweep may expire, and nothing else.
    assert transitions.expire(job) is not is_claimed


def test_a_claim_of_an_unknown_job_is_none():
    assert transitions.claim(uuid4()) is None


def test_success_keeps_the_text_and_settles_the_reported_usage(ada: Api):
    job = job_in("running", user=ada.user)
    before = row(job)

    assert transitions.succeed(Claim.of(job), COMPLETION)

    after = row(job)
    job.refresh_from_db()
    assert after.pop("timeline") != before["timeline"]
    assert {name: after[name] for name in after if after[name] != before[name]} == {
        "status": "succeeded",
        "http_status": 200,
        "result_text": "a" * 40,
        "finish_reason": "stop",
        "prompt_tokens": 2,
        "completion_tokens": 6,
        "settled_tokens": 8,
        "updated_at": job.updated_at,
        "finished_at": job.updated_at,
    }
    assert budget(ada.user)["spent_tokens"] == 8
    assert budget(ada.user)["active_jobs"] == 0


@pytest.mark.parametrize(
    ("prompt", "text", "used"), [("a" * 8, "b" * 40, 12), ("a", "b", 2), ("a" * 8, "", 3)]
)
def test_without_usage_a_success_is_settled_by_estimate(
    ada: Api, prompt: str, text: str, used: int
):
    job = job_in("running", user=ada.user, prompt=prompt)

    assert transitions.succeed(Claim.of(job), Completion(text, "", None))

    job.refresh_from_db()
    assert (job.prompt_tokens, job.completion_tokens, job.settled_tokens) == (None, None, used)
    assert job.finish_reason == ""
    assert budget(ada.user)["spent_tokens"] == used


def test_usage_above_the_reservation_is_booked_truthfully_and_logged(
    ada: Api, caplog: pytest.LogCaptureFixture, settings: Settings
):
    settings.INFERENCE_MAX_OUTPUT_TOKENS = 5
    give_budget(ada.user, daily_tokens=100, spent_tokens=80)
    job = job_in("running", user=ada.user)
    huge = Usage(2**31 - 1, 2**31 - 1)

    assert transitions.succeed(Claim.of(job), Completion("text", "stop", huge))

    job.refresh_from_db()
    assert job.settled_tokens == 2**32 - 2
    assert budget(ada.user)["spent_tokens"] == 80 + 2**32 - 2
    [record] = [record for record in caplog.records if "provider used" in record.msg]
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"job {job.pk}: the provider used 4294967294 tokens of 10 reserved"
    )
    assert ada.post("the next one").status_code == 429
    told = ada.get("/budget").json()  # type: ignore[attr-defined]
    assert told["remaining_tokens"] == 0


@pytest.mark.parametrize(
    ("code", "http_status", "detail"),
    [
        (ErrorCode.PROVIDER_5XX, 503, "It answered 503."),
        (ErrorCode.PROVIDER_REJECTED, 404, ""),
        (ErrorCode.PROVIDER_TIMEOUT, 504, "x" * 600),
    ],
)
def test_failure_says_why_and_releases(ada: Api, code: ErrorCode, http_status: int, detail: str):
    job = job_in("running", user=ada.user)
    before = row(job)

    assert transitions.fail(Claim.of(job), Failure(code, http_status, detail))

    after = row(job)
    job.refresh_from_db()
    assert after.pop("timeline") != before["timeline"]
    assert {name: after[name] for name in after if after[name] != before[name]} == {
        "status": "failed",
        "http_status": http_status,
        "error_code": code,
        **({"error_detail": detail[:500]} if detail else {}),
        **({"is_unclear": True} if code == ErrorCode.PROVIDER_TIMEOUT else {}),
        "settled_tokens": 0,
        "updated_at": job.updated_at,
        "finished_at": job.updated_at,
    }
    assert budget(ada.user)["spent_tokens"] == 0
    assert budget(ada.user)["active_jobs"] == 0


@pytest.mark.parametrize(
    ("status", "name", "code", "http_status", "kept"),
    [
        ("queued", "cancel", "cancelled", 499, 0),
        ("running", "cancel", "cancelled", 499, ESTIMATE),
        ("queued", "expire", "queue_expired", 503, 0),
        ("running", "lose", "worker_lost", 500, 0),
        ("running", "give_up", "worker_lost", 500, 0),
        ("running", "break_off", "internal_error", 500, 0),
    ],
)
def test_an_ending_of_our_own_has_its_code_and_its_price(
    ada: Api, status: str, name: str, code: str, http_status: int, kept: int
):
    job = job_in(status, user=ada.user, age_s=HOUR_S + 1)

    assert TRANSITIONS[name](job) is True

    job.refresh_from_db()
    assert (job.status, job.error_code, job.http_status) == ("failed", code, http_status)
    assert job.error_detail.endswith(".")
    assert job.settled_tokens == kept
    assert job.finished_at == job.updated_at
    assert budget(ada.user)["spent_tokens"] == kept
    assert budget(ada.user)["active_jobs"] == 0


@pytest.mark.parametrize("status", ["queued", "running"])
def test_a_second_cancel_changes_nothing(ada: Api, status: str):
    job = job_in(status, user=ada.user)
    transitions.cancel(job)

    with assert_unchanged(job):
        assert transitions.cancel(job) is False


def test_erase_leaves_a_row_without_texts(ada: Api):
    job = job_in("failed", user=ada.user, prompt="hello", age_s=100)
    before = row(job)

    assert transitions.erase(job)

    after = row(job)
    job.refresh_from_db()
    assert {name: after[name] for name in after if after[name] != before[name]} == {
        "prompt": "",
        "prompt_digest": digests.of("hello"),
        "error_detail": "",
        "erased_at": job.updated_at,
        "updated_at": job.updated_at,
    }


def test_erase_takes_the_text_of_a_success(ada: Api):
    job = job_in("succeeded", user=ada.user)

    transitions.erase(job)

    job.refresh_from_db()
    assert (job.prompt, job.result_text, job.is_erased) == ("", "", True)


def test_a_second_erase_changes_nothing(ada: Api):
    job = job_in("succeeded", user=ada.user)
    stale = ReportJob.objects.get(pk=job.pk)
    transitions.erase(job)

    with assert_unchanged(job):
        assert transitions.erase(stale) is False
        assert transitions.erase(ReportJob.objects.get(pk=job.pk)) is False


def test_a_digest_is_keyed(settings: Settings):
    mine = digests.of("hello")
    settings.SECRET_KEY = "another installation"

    assert digests.of("hello") != mine
    assert len(mine) == 64


def test_republish_is_taken_once(ada: Api):
    job = job_in("queued", user=ada.user, age_s=60)
    same = ReportJob.objects.get(pk=job.pk)

    assert republish(job) is True
    with assert_unchanged(job):
        assert republish(same) is False

    job.refresh_from_db()
    assert job.republished == 1
    assert job.publish_again_at > datetime.now(UTC) + timedelta(seconds=50)


def test_what_was_published_lately_is_not_republished(ada: Api):
    job = job_in("queued", user=ada.user, age_s=1)

    with assert_unchanged(job):
        assert republish(job) is False


def test_an_operator_may_republish_what_was_published_lately_once(ada: Api):
    job = job_in("queued", user=ada.user, age_s=1)

    assert republish_early(job) is True
    with assert_unchanged(job):
        assert republish_early(job) is False


def test_nobody_republishes_what_no_worker_may_claim(ada: Api):
    late = job_in("queued", user=ada.user, age_s=HOUR_S + 1)
    put_off = job_in("queued", user=ada.user, try_after=datetime.now(UTC) + timedelta(hours=1))

    for job in (late, put_off):
        with assert_unchanged(job):
            assert republish_early(job) is False


@pytest.mark.parametrize(
    ("status", "name"),
    [
        ("running", "succeed"),
        ("running", "fail"),
        ("running", "lose"),
        ("running", "cancel"),
        ("queued", "expire"),
        ("queued", "cancel"),
    ],
)
def test_after_midnight_the_new_day_is_not_touched(ada: Api, status: str, name: str):
    yesterday = today() - timedelta(days=1)
    job = job_in(status, user=ada.user, age_s=HOUR_S + 1, day_utc=yesterday)
    give_budget(ada.user, spent_tokens=77, reserved_tokens=33, day_utc=today())

    assert TRANSITIONS[name](job)

    after = budget(ada.user)
    assert (after["spent_tokens"], after["reserved_tokens"]) == (77, 33)
    assert (after["active_jobs"], after["day_utc"]) == (0, today())


def test_before_the_next_reservation_yesterday_is_still_settled(ada: Api):
    yesterday = today() - timedelta(days=1)
    job = job_in("running", user=ada.user, day_utc=yesterday)
    assert budget(ada.user)["spent_tokens"] == ESTIMATE

    transitions.succeed(Claim.of(job), COMPLETION)

    assert budget(ada.user)["spent_tokens"] == 8
    assert budget(ada.user)["day_utc"] == yesterday


def test_a_settlement_survives_a_deleted_budget_row(ada: Api):
    job = job_in("running", user=ada.user)
    InferenceBudget.objects.all().delete()

    assert transitions.succeed(Claim.of(job), COMPLETION)

    job.refresh_from_db()
    assert job.status == "succeeded"
    assert not InferenceBudget.objects.exists()


def test_a_settlement_touches_no_other_user(ada: Api, bob: Api):
    job = job_in("running", user=ada.user)
    job_in("running", user=bob.user)
    before = budget(bob.user)

    transitions.succeed(Claim.of(job), COMPLETION)

    assert budget(bob.user) == before


def test_a_sweep_of_fresh_jobs_moves_none(ada: Api):
    for status in Status.values:
        job_in(status, user=ada.user)

    with assert_nothing_written():
        swept = sweep.sweep()

    assert swept == sweep.Swept()


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "done"},
        {"finished_at": Now()},
        {"http_status": 200},
        {"claim_id": uuid4()},
        {"lease_expires_at": Now()},
        {"claim_id": uuid4(), "lease_expires_at": Now()},
        {"status": "running"},
        {"error_code": "cancelled"},
        {"status": "failed", "http_status": 500, "finished_at": Now()},
        {"status": "failed", "http_status": 500, "error_code": "cancelled"},
        {"status": "succeeded", "http_status": 200},
        {"status": "succeeded", "finished_at": Now()},
        {"status": "succeeded", "finished_at": Now(), "http_status": 200, "error_code": "x"},
        {
            "status": "succeeded",
            "finished_at": Now(),
            "http_status": 200,
            "claim_id": uuid4(),
        },
    ],
)
def test_the_database_refuses_a_row_that_cannot_be(ada: Api, columns: dict[str, object]):
    job = job_in("queued", user=ada.user)

    with (
        pytest.raises(IntegrityError, match="reportjob_fits_its_status"),
        transaction.atomic(),
    ):
        ReportJob.objects.filter(pk=job.pk).update(**columns)


@pytest.mark.parametrize(
    "column", ["spent_tokens", "daily_tokens", "reserved_tokens", "active_jobs"]
)
def test_the_database_refuses_a_negative_budget(ada: Api, column: str):
    give_budget(ada.user)

    with (
        pytest.raises(IntegrityError, match="inferencebudget_not_negative"),
        transaction.atomic(),
    ):
        InferenceBudget.objects.update(**{column: -1})


def test_the_database_refuses_a_second_job_under_a_key(ada: Api):
    job_in("failed", user=ada.user, idempotency_key="k")

    with pytest.raises(IntegrityError), transaction.atomic():
        job_in("queued", user=ada.user, idempotency_key="k")


@on_real_connections
def test_twenty_claims_at_once_have_one_winner(ada: Api):
    job = job_in("queued", user=ada.user)

    claims = together(transitions.claim, [job.pk] * 20)

    [winner] = [claim for claim in claims if claim is not None]
    job.refresh_from_db()
    assert winner == Claim.of(job)


@on_real_connections
def test_twenty_endings_at_once_settle_once(ada: Api):
    give_budget(ada.user, spent_tokens=50)
    job = job_in("running", user=ada.user, age_s=HOUR_S)
    endings = ["succeed", "fail", "lose", "cancel"] * 5

    moved = together(lambda name: TRANSITIONS[name](job), endings)

    [winner] = [name for name, answer in zip(endings, moved, strict=True) if answer is True]
    losers = [answer for answer in moved if answer is not True]
    assert all(loss is False or isinstance(loss, JobFinished) for loss in losers)
    cost = {"succeed": 8, "fail": 0, "lose": 0, "cancel": ESTIMATE}[winner]
    assert budget(ada.user)["spent_tokens"] == 50 + cost
    assert budget(ada.user)["active_jobs"] == 0


@needs_postgresql
@on_real_connections
@pytest.mark.parametrize("late", ["succeed", "fail", "lose", "cancel"])
@pytest.mark.parametrize("first", ["succeed", "fail", "lose", "cancel"])
def test_who_comes_late_waits_and_then_writes_nothing(ada: Api, first: str, late: str):
    job = job_in("running", user=ada.user, age_s=HOUR_S)
    cost = {"succeed": 8, "fail": 0, "lose": 0, "cancel": ESTIMATE}[first]

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            # The first has moved the job and waits here for the budget, its transaction open.
            InferenceBudget.objects.select_for_update().get()
            winner = begin(pool, lambda: TRANSITIONS[first](job))
            until_blocked(1)
            loser = begin(pool, lambda: TRANSITIONS[late](job))
            until_blocked(2)
        assert winner.result(10) is True
        if late == "cancel" and first != "cancel":
            with pytest.raises(JobFinished):
                loser.result(10)
        else:
            assert loser.result(10) is False

    job.refresh_from_db()
    assert job.status == MAY_MOVE["running", first]
    assert budget(ada.user)["spent_tokens"] == cost
    assert budget(ada.user)["active_jobs"] == 0


@needs_postgresql
@on_real_connections
def test_a_cancel_that_waits_for_a_claim_cancels_the_running_job(ada: Api):
    job = job_in("queued", user=ada.user)

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            held = transitions.claim(job.pk)
            cancel = begin(pool, lambda: transitions.cancel(job))
            until_blocked(1)
        assert cancel.result(10) is True

    assert held is not None
    with assert_unchanged(job):
        assert transitions.succeed(held, COMPLETION) is False
    assert budget(ada.user)["spent_tokens"] == ESTIMATE
    assert budget(ada.user)["active_jobs"] == 0


@pytest.mark.parametrize(
    ("length", "prompt_tokens", "is_cut"),
    [(8000, 499, True), (8000, 500, False), (8000, 2100, False), (1020, 1, False)],
)
def test_a_prompt_that_the_provider_must_have_cut_is_flagged(
    ada: Api, length: int, prompt_tokens: int, is_cut: bool
):
    job = job_in("running", user=ada.user, prompt="p" * length)

    transitions.succeed(Claim.of(job), Completion("an answer", usage=Usage(prompt_tokens, 3)))

    job.refresh_from_db()
    assert job.is_prompt_cut is is_cut
