"""What a log says of an exception: its type and place, and nothing that it carries."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Never

import pytest
from django.conf import settings as configured
from django.db import IntegrityError
from django.test import Client
from django.utils.module_loading import import_string

from reports import acceptance, runner, transitions
from tests.support.rows import job_in

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
CANARY = "the prompt of a canary"


@pytest.fixture
def log(tmp_path) -> Generator[list[str]]:
    """Every line as the product's own handler writes it."""
    lines: list[str] = []
    line: Any = configured.LOGGING["formatters"]
    handler = logging.StreamHandler()
    handler.setFormatter(import_string(line["line"]["()"])(line["line"]["format"]))
    handler.emit = lambda record: lines.append(handler.format(record))  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    yield lines
    logging.getLogger().removeHandler(handler)


def break_with_values(*_: object, **__: object) -> Never:
    raise IntegrityError(f"Failing row contains ({CANARY})")


def test_a_broken_page_is_logged_without_its_values(
    ada: Api, log: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(acceptance, "accept", break_with_values)
    client = Client(raise_request_exception=False)
    client.force_login(ada.user)

    response = client.post("/", {"key": "a-key", "prompt": CANARY})

    assert response.status_code == 500
    said = "\n".join(log)
    assert "IntegrityError" in said
    assert "break_with_values" in said
    assert CANARY not in said


def test_a_job_that_cannot_be_claimed_is_logged_without_its_values(
    ada: Api, log: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transitions, "claim", break_with_values)

    runner.run(job_in("queued", user=ada.user).pk)

    said = "\n".join(log)
    assert "could not be claimed" in said
    assert CANARY not in said
