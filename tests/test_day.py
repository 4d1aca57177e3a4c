"""One UTC day for everything, whatever zone a process, a page or a database session lives in."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection
from django.test import Client

from budgets import caps
from reports import acceptance, transitions
from reports.models import ReportJob
from reports.provider import Completion
from tests.support.expect import body_of
from tests.support.rows import budget, today

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db


# At any moment at least one of them has another date than UTC. POSIX turns the signs around.
@pytest.fixture(params=["Etc/GMT-14", "Etc/GMT+12"])
def abroad(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch, db: None
) -> Iterator[str]:
    """A process, a site and a database session that live far from Greenwich."""
    settings.TIME_ZONE = request.param
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL TIME ZONE '{request.param}'")
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_reserve_settle_release_page_and_admin_see_the_same_day(abroad: str, ada: Api):
    first, second = (
        acceptance.accept(ada.user_id, key=f"key-{number}", prompt="a" * 40) for number in (1, 2)
    )
    held = transitions.claim(first.job_id)
    assert held is not None

    assert held.day_utc == first.envelope.day_utc == budget(ada.user)["day_utc"] == today()
    assert budget(ada.user)["spent_tokens"] == 20
    transitions.succeed(held, Completion("b" * 40))
    transitions.cancel(ReportJob.objects.get(pk=second.job_id))
    assert budget(ada.user)["spent_tokens"] == 20  # ten of the prompt, ten of the text
    assert body_of(ada.get("/budget"))["day_utc"] == today().isoformat()
    browser = Client()
    browser.force_login(ada.user)
    page = browser.get("/").content.decode()
    assert f'datetime="{today() + timedelta(days=1)}T00:00:00+00:00">00:00 UTC' in page
    assert caps.reset_today(ada.user_id, by=ada.user, why="it is the same day")
