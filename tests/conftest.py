"""What every test may ask for: services, users, clients, the provider on loopback."""

from __future__ import annotations

import pytest
from django.db import connection


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """On SQLite a file as in production: Django's default, memory, is one database per thread."""
    if connection.vendor == "sqlite":
        connection.settings_dict["TEST"]["NAME"] = connection.settings_dict["NAME"]
