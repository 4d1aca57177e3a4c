"""What the tests of pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from tests.support.clients import Api


@pytest.fixture
def browser(ada: Api) -> Client:
    """Ada, signed in."""
    client = Client(headers={"Accept": "text/html"})
    client.force_login(ada.user)
    return client
