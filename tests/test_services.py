"""The tests' own ground: the database and the broker are real."""

from __future__ import annotations

import os

import pytest
import redis
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_the_one_that_was_asked_for():
    wanted = "sqlite" if os.environ.get("TEST_DATABASE") == "sqlite" else "postgresql"

    assert connection.vendor == wanted
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM auth_user")
        assert cursor.fetchone() == (0,)


def test_the_broker_answers():
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as broker:
        assert broker.ping() is True
