"""What every test may ask for: services, users, clients, the provider on loopback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis
from django.conf import settings
from django.db import connection

from access import attempts
from reports import runner
from tests.support import processes as support
from tests.support.clients import Api
from tests.support.patience import take_no_stall_for_an_outage
from tests.support.provider import Provider

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from pytest_django import Settings

# Queues, and where kombu keeps messages that are delivered and not yet acknowledged.
BROKER_KEYS = ("jobs", "upkeep", "unacked", "unacked_index", "unacked_mutex")


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """On SQLite a file as in production: Django's default, memory, is one database per thread."""
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = connection.settings_dict["NAME"]


@pytest.fixture(autouse=True, scope="session")
def a_stall_is_no_outage() -> None:
    """Tests publish and hint in-process, too."""
    take_no_stall_for_an_outage()


@pytest.fixture(autouse=True)
def attempts_begin_anew() -> None:
    """Every test comes from one address, and many send bad tokens."""
    attempts.forget_all()


@pytest.fixture
def broker() -> Generator[redis.Redis]:
    """The broker, without messages of earlier tests."""
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.delete(*BROKER_KEYS)
        yield client


@pytest.fixture
def processes(
    transactional_db: None, broker: redis.Redis, tmp_path: Path
) -> Generator[support.Processes]:
    """Starts real processes on the test's database and broker; fails when one is left behind."""
    started = support.Processes(tmp_path, support.environment())
    yield started
    started.close()


@pytest.fixture
def ada(db: None) -> Api:
    """A user with a token."""
    return Api.of_new("ada")


@pytest.fixture
def bob(db: None) -> Api:
    """Another one, for whom nothing of Ada's exists."""
    return Api.of_new("bob")


@pytest.fixture
def provider(settings: Settings) -> Generator[Provider]:
    """The stand-in for the provider, which jobs that run in the test's own process will call."""
    with Provider() as stand_in:
        settings.INFERENCE_URL = stand_in.url
        runner.config.cache_clear()
        yield stand_in
    runner.config.cache_clear()
