"""What is kept too long goes: in batches, the oldest first, beside the accepts."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from django.db import connection, connections, transaction
from django.utils import timezone

from reports import digests, invariants, retention, sweep, usage
from reports.ids import lowest_at
from reports.models import ReportJob
from tests.support.rows import budget, job_in, row
from tests.support.statements import recorded
from tests.support.threads import begin, together

if TYPE_CHECKING:
    from pytest_django import Settings

    from reports.models import JobQuerySet
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db(transaction=True)
DAY_S = 86_400


@pytest.fixture(autouse=True)
def _in_tens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten, however slow the machine is."""
    monkeypatch.setattr(retention, "BATCH", 10)
    monkeypatch.setattr(retention, "SHORT_S", 60.0)


_numbers = count(1)


def aged(api: Api, days: int, *, status: str = "succeeded", **columns: Any) -> ReportJob:
    """A job that was accepted and ended so many days ago, with an id of that time."""
    then = datetime.now(UTC) - timedelta(days=days)
    born = UUID(int=lowest_at(then).int + next(_numbers))
    told: dict[str, Any] = {"id": born, "day_utc": then.date(), "prompt": "kept too long"}
    return job_in(status, user=api.user, age_s=days * DAY_S, **told | columns)


def old_jobs(api: Api, how_many: int) -> list[ReportJob]:
    """Jobs that ended 32 days ago."""
    first = aged(api, 32)
    columns = {**row(first)}
    rest = [
        ReportJob(
            **columns | {"id": UUID(int=first.pk.int + number), "idempotency_key": f"old-{number}"}
        )
        for number in range(1, how_many)
    ]
    return [first, *ReportJob.objects.bulk_create(rest)]


def kept_texts() -> int:
    """How many jobs have their texts."""
    return ReportJob.objects.filter(erased_at=None).count()


def test_texts_go_after_retention_days_and_the_row_stays(ada: Api):
    old = aged(ada, 31)
    young = aged(ada, 29)
    before = row(young), budget(ada.user)

    swept = sweep.sweep()

    assert swept.erased == 1
    texts = {name: row(old)[name] for name in ("prompt", "result_text", "error_detail", "status")}
    assert texts == {"prompt": "", "result_text": "", "error_detail": "", "status": "succeeded"}
    assert digests.matches(str(row(old)["prompt_digest"]), "kept too long")
    assert (row(young), budget(ada.user)) == before


def test_a_job_that_has_not_ended_is_never_too_old(ada: Api, settings: Settings):
    settings.QUEUE_TTL_S = 90 * DAY_S
    settings.KEY_RETENTION_DAYS = 1
    jobs = [aged(ada, 40, status=status) for status in ("queued", "running")]

    usage.close_days()
    moved = retention.erase_old(), retention.delete_old()

    assert moved == (0, 0)
    assert [row(job)["prompt"] for job in jobs] == ["kept too long"] * 2


def test_after_key_retention_days_the_key_is_free_again(ada: Api, settings: Settings):
    settings.KEY_RETENTION_DAYS = 40
    old = aged(ada, 41, idempotency_key="key-1")
    young = aged(ada, 39)
    ReportJob.objects.filter(pk=old.pk).update(erased_at=old.finished_at)
    usage.close_days()

    swept = sweep.sweep()
    answer = ada.post("another prompt", key="key-1")

    assert swept.deleted == 1
    assert answer.status_code == 202
    assert json.loads(answer.content)["job_id"] != str(old.pk)
    assert set(ReportJob.objects.values_list("pk", flat=True)) > {young.pk}
    assert list(invariants.check()) == []


def test_the_clock_of_this_process_decides_nothing(
    ada: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.KEY_RETENTION_DAYS = 40
    aged(ada, 39)
    usage.close_days()
    ahead = timezone.now() + timedelta(days=365)
    monkeypatch.setattr(timezone, "now", lambda: ahead)

    assert retention.delete_old() == 0


def test_many_old_texts_go_in_one_pass_and_in_short_transactions(
    ada: Api, monkeypatch: pytest.MonkeyPatch
):
    old_jobs(ada, 35)

    with recorded() as statements:
        erased = retention.erase_old()

    assert erased == 35
    assert kept_texts() == 0
    transactions = " ".join(statements).split("BEGIN")[1:]
    assert [words.count("UPDATE") for words in transactions] == [1, 1, 1, 1]
    assert all("COMMIT" in words for words in transactions)


def test_a_pass_ends_in_time_and_the_next_one_goes_on_with_the_oldest(
    ada: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.SWEEP_INTERVAL_S = 0.0  # no time but for one batch
    jobs = old_jobs(ada, 25)

    passes = [retention.erase_old() for _ in range(4)]

    assert passes == [10, 10, 5, 0]
    assert row(jobs[0])["prompt"] == ""


def test_many_old_rows_are_deleted_in_batches(
    ada: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    settings.KEY_RETENTION_DAYS = 30
    old_jobs(ada, 35)
    usage.close_days()

    assert retention.delete_old() == 35
    assert not ReportJob.objects.exists()


def test_between_two_batches_it_rests_for_as_long_as_it_worked(
    ada: Api, monkeypatch: pytest.MonkeyPatch
):
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    old_jobs(ada, 25)

    retention.erase_old()

    assert len(rests) == 2
    assert min(rests) > 0


def test_where_a_batch_takes_long_the_next_one_is_smaller(
    ada: Api, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    erase_some = retention.erase_some

    def slowly(rows: JobQuerySet, *, most: int) -> int:
        asked.append(most)
        return erase_some(rows, most=most)

    monkeypatch.setattr(retention, "erase_some", slowly)
    monkeypatch.setattr(retention, "SHORT_S", 0.0)
    old_jobs(ada, 13)

    assert retention.erase_old() == 13
    assert asked == [10, 1, 1, 1, 1]


def test_sweeps_that_meet_take_other_rows(ada: Api, monkeypatch: pytest.MonkeyPatch):
    old_jobs(ada, 60)
    connection.close()

    erased = together(lambda _: retention.erase_old(), range(4), threads=4)

    numbers = [number for number in erased if isinstance(number, int)]
    assert len(numbers) == 4, erased
    assert sum(numbers) == 60
    assert kept_texts() == 0


@pytest.mark.system  # of PostgreSQL: SQLite has one writer at a time
def test_a_row_that_somebody_holds_stops_nobody(ada: Api):
    jobs = old_jobs(ada, 5)

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        ReportJob.objects.select_for_update().get(pk=jobs[0].pk)
        erased = begin(pool, retention.erase_old).result(10)

    assert erased == 4


def test_accepts_go_on_beside_it(ada: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch):
    """200,000 rows and figures: benchmarks/retention.py."""
    settings.SWEEP_INTERVAL_S = 600.0
    settings.MAX_ACTIVE_JOBS_PER_USER = 1000
    old_jobs(ada, 150)
    connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        run = begin(pool, retention.erase_old)
        answers: list[tuple[int, float]] = []
        while not run.done():
            began = time.monotonic()
            status = ada.post(key=f"beside-{len(answers)}").status_code
            answers.append((status, time.monotonic() - began))

    assert run.result() == 150
    assert {status for status, _ in answers} == {202}
    assert len(answers) > 5
    assert max(took_s for _, took_s in answers) < 2
