"""The same key again: the same job, whatever became of it, and never a second reservation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from django.db import IntegrityError, connection, transaction

from budgets.models import InferenceBudget
from reports import acceptance, transitions
from reports.acceptance import Accepted
from reports.errors import BudgetExhausted, KeyReused
from reports.models import ReportJob, Status
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import budget, give_budget, job_in
from tests.support.threads import begin, together, until_blocked

if TYPE_CHECKING:
    from django.http import HttpResponse
    from pytest_django import Settings

    from tests.support.clients import Api

YEARS_S = 10 * 366 * 86400
on_real_connections = pytest.mark.django_db(transaction=True)
needs_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite cannot be asked who waits for whom"
)


def assert_replays(response: HttpResponse, job: ReportJob) -> None:
    """The answer is this job as it is now, marked as a replay."""
    assert response.status_code == 202, response.content
    assert body_of(response) == {"job_id": str(job.pk), "status": job.status}
    assert response.headers["Idempotent-Replayed"] == "true"
    assert response.headers["Location"] == f"/reports/{job.pk}"
    assert response.headers["Retry-After"] == "1"
    assert response.headers["RateLimit-Policy"].startswith('"daily-tokens";q=')
    assert response.headers["RateLimit"].startswith('"daily-tokens";r=')


@pytest.mark.django_db
@pytest.mark.parametrize("age_s", [0, YEARS_S])
@pytest.mark.parametrize("status", Status.values)
def test_the_same_prompt_finds_its_job(ada: Api, status: str, age_s: float):
    job = job_in(status, user=ada.user, age_s=age_s, idempotency_key="k", prompt="hello")

    with assert_nothing_written():
        response = ada.post("hello", key="k")

    assert_replays(response, job)


@pytest.mark.django_db
@pytest.mark.parametrize("age_s", [0, YEARS_S])
@pytest.mark.parametrize("status", Status.values)
def test_another_prompt_is_refused_in_every_state(ada: Api, status: str, age_s: float):
    job = job_in(status, user=ada.user, age_s=age_s, idempotency_key="k", prompt="hello")

    with assert_nothing_written():
        response = ada.post("hello ", key="k")

    members = assert_problem(response, 422, "idempotency_key_reused")
    assert members == {"job_id": str(job.pk)}


@pytest.mark.django_db
def test_the_quoted_form_is_the_same_key(ada: Api):
    first = body_of(ada.post("hello", key="abc"))

    response = ada.post("hello", key='"abc"')

    assert_replays(response, ReportJob.objects.get(pk=first["job_id"]))


@pytest.mark.django_db
def test_a_replay_finds_the_askers_own_job(ada: Api, bob: Api):
    job_in("succeeded", user=bob.user, idempotency_key="k", prompt="another", age_s=60)
    job = job_in("queued", user=ada.user, idempotency_key="k", prompt="hello")

    assert_replays(ada.post("hello", key="k"), job)


@pytest.mark.django_db
def test_an_erased_job_still_knows_its_prompt(ada: Api):
    job = job_in("succeeded", user=ada.user, idempotency_key="k", prompt="hello")
    assert ada.request("DELETE", f"/reports/{job.pk}").status_code == 204

    with assert_nothing_written():
        same = ada.post("hello", key="k")
        other = ada.post("another", key="k")
        blank = ada.post("", key="k")

    assert_replays(same, job)
    assert_problem(other, 422, "idempotency_key_reused")
    assert_problem(blank, 400, "invalid_request")
    assert ReportJob.objects.get().prompt == ""


@pytest.mark.django_db
def test_an_erased_job_knows_its_prompt_after_the_secret_key_was_rotated(
    ada: Api, settings: Settings
):
    job = job_in("succeeded", user=ada.user, idempotency_key="k", prompt="hello")
    transitions.erase(job)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a new key, as after a rotation"

    replayed = acceptance.accept(ada.user_id, key="k", prompt="hello")

    assert (replayed.job_id, replayed.was_replayed) == (job.pk, True)
    with pytest.raises(KeyReused):
        acceptance.accept(ada.user_id, key="k", prompt="another")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "columns",
    [
        {"daily_tokens": 10, "spent_tokens": 10},
        {"daily_tokens": 10, "spent_tokens": 99},
        {"daily_tokens": 0, "spent_tokens": 0},
        {"daily_tokens": 0, "spent_tokens": 0, "active_jobs": 1_000_000},
    ],
)
def test_a_replay_is_never_refused_for_its_budget(ada: Api, columns: dict[str, int]):
    job = job_in("queued", user=ada.user, idempotency_key="k", prompt="hello")
    give_budget(ada.user, **columns)

    with assert_nothing_written():
        response = ada.post("hello", key="k")

    assert_replays(response, job)
    assert response.headers["RateLimit"].startswith('"daily-tokens";r=0;')


@pytest.mark.django_db
def test_another_prompt_is_told_so_even_when_the_budget_is_exhausted(ada: Api):
    job_in("queued", user=ada.user, idempotency_key="k", prompt="hello")
    give_budget(ada.user, daily_tokens=0, spent_tokens=0)

    assert_problem(ada.post("another", key="k"), 422, "idempotency_key_reused")


@pytest.mark.django_db
def test_a_replay_survives_a_deleted_budget_row(ada: Api):
    job = job_in("queued", user=ada.user, idempotency_key="k", prompt="hello")
    InferenceBudget.objects.all().delete()

    with assert_nothing_written():
        response = ada.post("hello", key="k")

    assert_replays(response, job)


@pytest.mark.django_db
def test_a_deleted_row_frees_its_key(ada: Api):
    job = job_in("failed", user=ada.user, idempotency_key="k", prompt="hello")
    ReportJob.objects.filter(pk=job.pk).delete()

    response = ada.post("another", key="k")

    assert response.status_code == 202
    assert "Idempotent-Replayed" not in response.headers


@on_real_connections
def test_twenty_at_once_are_one_row_and_one_reservation(ada: Api):
    answers = together(lambda _: ada.post("hello world!", key="k"), range(20))

    told = [body_of(answer)["job_id"] for answer in answers if not isinstance(answer, Exception)]
    job = ReportJob.objects.get()
    assert told == [str(job.pk)] * 20
    replayed = [
        answer.headers.get("Idempotent-Replayed")
        for answer in answers
        if not isinstance(answer, Exception)
    ]
    assert sorted(replayed, key=str) == [None] + ["true"] * 19
    assert budget(ada.user)["spent_tokens"] == 3
    assert budget(ada.user)["active_jobs"] == 1


@on_real_connections
def test_two_prompts_at_once_have_one_winner(ada: Api):
    prompts = ["hello world!", "another"] * 10

    answers = together(
        lambda prompt: acceptance.accept(ada.user_id, key="k", prompt=prompt), prompts
    )

    job = ReportJob.objects.get()
    for prompt, answer in zip(prompts, answers, strict=True):
        if prompt == job.prompt:
            assert isinstance(answer, Accepted), answer
            assert answer.job_id == job.pk
        else:
            assert isinstance(answer, KeyReused), answer
    assert budget(ada.user)["spent_tokens"] == job.token_estimate
    assert budget(ada.user)["active_jobs"] == 1


@on_real_connections
def test_a_clash_that_is_not_about_the_key_is_no_replay(ada: Api):
    nobody = ada.user_id + 1

    with assert_nothing_written(), pytest.raises(IntegrityError):
        acceptance.accept(nobody, key="k", prompt="hello")


@needs_postgresql
@on_real_connections
@pytest.mark.parametrize("prompt", ["hello", "another"])
def test_a_loser_waits_for_the_winner_and_is_answered_with_its_job(ada: Api, prompt: str):
    give_budget(ada.user, spent_tokens=0)

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            # The winner has inserted its row and waits here for the budget, its transaction open.
            InferenceBudget.objects.select_for_update().get()
            winner = begin(pool, lambda: ada.post("hello", key="k"))
            until_blocked(1)
            loser = begin(pool, lambda: ada.post(prompt, key="k"))
            until_blocked(2)
        answers = winner.result(10), loser.result(10)

    job = ReportJob.objects.get()
    assert answers[0].status_code == 202
    assert "Idempotent-Replayed" not in answers[0].headers
    if prompt == "hello":
        assert_replays(answers[1], job)
    else:
        assert_problem(answers[1], 422, "idempotency_key_reused")
    assert budget(ada.user)["spent_tokens"] == 1
    assert budget(ada.user)["active_jobs"] == 1


@needs_postgresql
@on_real_connections
def test_a_loser_becomes_the_winner_when_the_first_rolls_back(ada: Api):
    give_budget(ada.user, spent_tokens=0)

    with ThreadPoolExecutor() as pool:
        with transaction.atomic():
            InferenceBudget.objects.select_for_update().get()
            first = begin(pool, lambda: acceptance.accept(ada.user_id, key="k", prompt="a" * 400))
            until_blocked(1)
            second = begin(pool, lambda: acceptance.accept(ada.user_id, key="k", prompt="a" * 40))
            until_blocked(2)
            give_budget(ada.user, daily_tokens=100, spent_tokens=50)
        with pytest.raises(BudgetExhausted):
            first.result(10)
        accepted = second.result(10)

    job = ReportJob.objects.get()
    assert (accepted.job_id, accepted.was_replayed) == (job.pk, False)
    assert job.prompt == "a" * 40
    assert budget(ada.user)["spent_tokens"] == 60
    assert budget(ada.user)["active_jobs"] == 1
