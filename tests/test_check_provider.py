"""`check_provider`: one tiny call, and plain words about it."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

import pytest
from django.core.management import CommandError, call_command

from reports import runner
from tests.provider.asking import KEY
from tests.support.provider import Answer

if TYPE_CHECKING:
    from pytest_django import Settings

    from tests.support.provider import Provider


def said() -> str:
    output = StringIO()
    call_command("check_provider", stdout=output)
    return output.getvalue()


def test_it_says_what_works(provider: Provider):
    usage = {"prompt_tokens": 8, "completion_tokens": 1}
    provider.script(Answer.of({"text": "ready", "usage": usage, "finish_reason": "stop"}))

    words = said()

    assert f"Asking {provider.url}, protocol prompt, without a key" in words
    assert "with 5 characters of text" in words
    assert "8 tokens of prompt, 1 of completion" in words
    assert "why it stopped: stop" in words
    assert len(provider.calls) == 1


def test_it_says_what_a_working_provider_leaves_out(provider: Provider):
    provider.script(Answer())

    words = said()

    assert "charged by estimate" in words
    assert "will not be marked" in words


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (Answer(status=401), "INFERENCE_KEY"),
        (Answer(status=404), "INFERENCE_MODEL"),
        (Answer(status=503), "own log"),
        (Answer(body=b"<html>"), "INFERENCE_PROTOCOL"),
    ],
    ids=["401", "404", "503", "not JSON"],
)
def test_it_says_what_to_look_at(provider: Provider, answer: Answer, hint: str):
    provider.script(answer)

    with pytest.raises(CommandError, match=hint):
        said()


def test_it_shows_neither_the_key_nor_the_query_of_the_url(provider: Provider, settings: Settings):
    settings.INFERENCE_URL = f"{provider.url}?key=CANARY"
    settings.INFERENCE_KEY = KEY
    runner.config.cache_clear()
    provider.script(Answer())

    words = said()

    assert "CANARY" not in words
    assert KEY not in words
    assert "with a key" in words


def test_without_a_url_there_is_nobody_to_ask(settings: Settings):
    settings.INFERENCE_URL = ""
    runner.config.cache_clear()

    with pytest.raises(CommandError, match="INFERENCE_URL is not set"):
        said()
