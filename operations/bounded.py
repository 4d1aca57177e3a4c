"""Reads that end in time: an operator's page must not be what holds the database up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connection, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def statements(*, limit_ms: int) -> Iterator[None]:
    """Let PostgreSQL break off what takes longer: OperationalError. SQLite knows no such limit."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                limit = str(limit_ms)
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
        yield
