"""A receiver on loopback, which only development allows, and what is sent to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.provider import Answer, Provider

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_django import Settings


@pytest.fixture
def receiver(settings: Settings) -> Generator[Provider]:
    """Takes what it is sent with 204, until it is scripted."""
    settings.DEBUG = True
    with Provider(Answer(b"", status=204)) as running:
        yield running
