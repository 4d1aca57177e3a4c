"""The million rows, filled once for all tests of a file, and who asks for some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.utils import timezone

from access.models import Token
from reports import transitions
from reports.models import ReportJob
from tests.admin.conftest import signed_in
from tests.scale import million
from tests.support.clients import Api

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from django.test import Client
    from pytest_django.plugin import DjangoDbBlocker

    from reports.transitions import Claim


@pytest.fixture(scope="module")
def million_jobs(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Generator[None]:
    """A table that is worth an index."""
    with django_db_blocker.unblock():
        if connection.vendor != "postgresql":
            pytest.skip("SQLite tells nothing of what a statement took")
        with connection.cursor() as cursor:
            cursor.execute("SHOW is_superuser")
            if cursor.fetchone() != ("on",):
                pytest.skip("only a superuser of PostgreSQL may load auto_explain")
        with million.filled():
            yield


@pytest.fixture
def whale(million_jobs: None, db: None) -> Api:
    """The user with 300,000 jobs, none of which waits, runs or failed."""
    return _of(million.WHALE)


@pytest.fixture
def person(million_jobs: None, db: None) -> Api:
    """One of the others: about 140 jobs, four of which wait."""
    return _of(million.PERSON)


@pytest.fixture
def operator(million_jobs: None, db: None) -> Client:
    """A superuser, signed in."""
    return signed_in(get_user_model().objects.create_superuser("operator"))


@pytest.fixture
def waiting(million_jobs: None, db: None) -> Iterator[ReportJob]:
    """Queued jobs from the middle of the backlog, one by one."""
    middle = ReportJob.objects.queued().order_by("created_at")[million.QUEUED // 2 :]
    return iter(list(middle[:100]))


@pytest.fixture
def claimed(waiting: Iterator[ReportJob]) -> Callable[[], Claim]:
    """Each call claims another job, which is then the caller's to finish."""

    def claim() -> Claim:
        held = transitions.claim(next(waiting).pk)
        assert held is not None
        return held

    return claim


def _of(username: str) -> Api:
    user = get_user_model().objects.get(username=username)
    return Api(user, Token.objects.create(user, last_used_at=timezone.now())[1])
