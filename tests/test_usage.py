"""What each day came to: live from the jobs while it is open, from its own rows once it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models.functions import Now

from reports import sweep, usage
from reports.errors import ErrorCode
from reports.ids import lowest_at
from reports.models import ReportJob, UsageDay
from reports.usage import Usage
from tests.support.rows import job_in, today
from tests.support.threads import together

if TYPE_CHECKING:
    from datetime import date

    from django.contrib.auth.models import User
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
_numbers = iter(range(1, 1_000_000))


def job_of(day: date, status: str, *, user: User, **columns: Any) -> ReportJob:
    """A job accepted at noon of a day."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    number = next(_numbers)
    pk = type(lowest_at(noon))(int=lowest_at(noon).int + number)
    return job_in(status, user=user, id=pk, day_utc=day, **columns)


def days_ago(number: int) -> date:
    """A UTC day."""
    return today() - timedelta(days=number)


@pytest.fixture
def busy(ada: Api, bob: Api) -> Api:
    """Two users' jobs of three days."""
    for day in (days_ago(3), days_ago(2)):
        job_of(day, "succeeded", user=ada.user)
        job_of(day, "failed", user=ada.user)
        lost: dict[str, Any] = {"is_unclear": True, "error_code": ErrorCode.WORKER_LOST}
        job_of(day, "failed", user=bob.user, **lost)
    job_of(today(), "queued", user=ada.user)
    job_of(today(), "succeeded", user=bob.user, settled_tokens=25)
    return ada


ADA = Usage(jobs=2, reserved_tokens=20, settled_tokens=7, released_tokens=13)
BOB = Usage(jobs=1, reserved_tokens=10, released_tokens=10, unclear_ends=1, unclear_tokens=10)
WAITING = Usage(jobs=1, reserved_tokens=10)
ABOVE = Usage(jobs=1, reserved_tokens=10, settled_tokens=25)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_days_are_summed_the_same_before_and_after_they_are_closed(busy: Api, closed: int):
    _close(closed)

    assert usage.by_day(days_ago(9), today()) == {
        days_ago(3): ADA + BOB,
        days_ago(2): ADA + BOB,
        today(): WAITING + ABOVE,
    }
    assert usage.by_day(days_ago(2), days_ago(1)) == {days_ago(2): ADA + BOB}
    assert usage.by_day(days_ago(9), today(), user_id=busy.user_id) == {
        days_ago(3): ADA,
        days_ago(2): ADA,
        today(): WAITING,
    }


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_users_are_told_by_what_they_were_charged(busy: Api, bob: Api, closed: int):
    _close(closed)

    found = usage.by_user(days_ago(9), today(), most=5)

    assert list(found.items()) == [
        (bob.user_id, BOB + BOB + ABOVE),
        (busy.user_id, ADA + ADA + WAITING),
    ]
    assert list(usage.by_user(days_ago(9), today(), most=1)) == [bob.user_id]


def test_days_that_are_over_are_closed_once(busy: Api):
    assert usage.closed_until() is None

    assert usage.close_days() == 2
    assert usage.close_days() == 0

    assert usage.closed_until() == days_ago(2)
    assert UsageDay.objects.count() == 4


def test_a_day_with_an_active_job_stays_open(busy: Api):
    job = job_of(days_ago(2), "running", user=busy.user)

    assert usage.close_days() == 1
    assert usage.closed_until() == days_ago(3)

    ReportJob.objects.filter(pk=job.pk).delete()
    assert usage.close_days() == 1


def test_a_day_that_ended_a_moment_ago_stays_open(ada: Api, monkeypatch: pytest.MonkeyPatch):
    job_of(days_ago(1), "succeeded", user=ada.user)
    midnight = datetime.combine(today(), datetime.min.time(), tzinfo=UTC)
    for minutes, closed in ((59, 0), (61, 1)):
        monkeypatch.setattr(usage, "datetime", _Clock.at(midnight + timedelta(minutes=minutes)))

        assert usage.close_days() == closed


@pytest.mark.django_db(transaction=True)
def test_closers_at_once_write_each_day_once(busy: Api):
    together(lambda _: usage.close_days(), range(6), threads=6)

    assert UsageDay.objects.count() == 4
    assert usage.by_day(days_ago(9), days_ago(1)) == {
        days_ago(3): ADA + BOB,
        days_ago(2): ADA + BOB,
    }


def test_sums_outlive_the_jobs_that_retention_deletes(busy: Api, settings: Settings):
    settings.KEY_RETENTION_DAYS = 1
    ReportJob.objects.exclude(finished_at=None).update(finished_at=Now() - timedelta(days=2))

    assert sweep.sweep().deleted == 0, "a day that is not closed keeps its rows"
    usage.close_days()
    assert sweep.sweep().deleted == 6

    assert usage.by_day(days_ago(9), days_ago(1)) == {
        days_ago(3): ADA + BOB,
        days_ago(2): ADA + BOB,
    }


def test_without_jobs_there_is_nothing_to_tell(db: None):
    assert usage.close_days() == 0
    assert usage.by_day(days_ago(9), today()) == {}
    assert usage.by_user(days_ago(9), today(), most=3) == {}


def _close(how_many: int) -> None:
    usage.close_days()
    UsageDay.objects.exclude(day_utc__in=[days_ago(3), days_ago(2)][:how_many]).delete()


class _Clock(datetime):
    """A clock that stands still."""

    instant: datetime

    @classmethod
    def at(cls, instant: datetime) -> type[_Clock]:
        """One that stands at an instant."""
        return type("_Clock", (cls,), {"instant": instant})

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # noqa: ARG003
        """The instant."""
        return cls.instant
