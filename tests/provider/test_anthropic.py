"""Anthropic's Messages: the third protocol, which proves that the seam is one."""

from __future__ import annotations

import dataclasses

import pytest

from reports.conversation import Conversation, Message
from reports.errors import ErrorCode
from reports.provider import Completion, Usage
from reports.provider.protocols import PROTOCOLS
from tests.provider.asking import CONFIG, KEY, ask, assert_fails, read
from tests.support.provider import Answer, Provider

WHY = Conversation(messages=(Message("user", "why?"),))
MESSAGES = dataclasses.replace(CONFIG, protocol="anthropic", model="m", max_output_tokens=64)


def message(*blocks: object, stop_reason: str | None = "end_turn", **rest: object):
    return {"type": "message", "content": list(blocks), "stop_reason": stop_reason, **rest}


def text(words: str):
    return {"type": "text", "text": words}


def test_it_sends_the_limit_always_and_the_system_prompt_apart():
    config = dataclasses.replace(MESSAGES, system_prompt="be kind")

    assert PROTOCOLS["anthropic"].build(WHY, config) == {
        "model": "m",
        "messages": [{"role": "user", "content": "why?"}],
        "max_tokens": 64,
        "system": "be kind",
    }


def test_it_sends_the_key_under_its_own_name():
    answer = Answer.of(message(text("hello")))
    with Provider(answer) as provider:
        outcome = ask(provider.url, protocol="anthropic", max_output_tokens=64)
        (call,) = provider.calls

    assert outcome == Completion("hello", "stop")
    assert call.headers["x-api-key"] == KEY
    assert call.headers["anthropic-version"] == "2023-06-01"
    assert "authorization" not in {name.lower() for name in call.headers}


def test_an_answer_is_read_whole_without_its_thinking():
    blocks = [{"type": "thinking", "thinking": "secret plan"}, text("hel"), text("lo")]
    usage = {"input_tokens": 5, "output_tokens": 7}

    outcome = read("anthropic", message(*blocks, usage=usage))

    assert outcome == Completion("hello", "stop", Usage(5, 7))


@pytest.mark.parametrize(
    ("stop_reason", "stored"),
    [("max_tokens", "length"), ("stop_sequence", "stop"), ("pause_turn", "pause_turn"), (None, "")],
)
def test_its_words_for_the_end_become_ours(stop_reason: str | None, stored: str):
    answer = message(text("hello"), stop_reason=stop_reason)

    assert read("anthropic", answer) == Completion("hello", stored)


@pytest.mark.parametrize("stop_reason", ["refusal", "max_tokens", "tool_use", "end_turn"])
def test_an_answer_without_text_is_invalid(stop_reason: str):
    outcome = read("anthropic", message(stop_reason=stop_reason))

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (529, "overloaded_error", ErrorCode.PROVIDER_5XX),
        (400, "invalid_request_error", ErrorCode.PROVIDER_REJECTED),
        (413, "request_too_large", ErrorCode.PROVIDER_REJECTED),
    ],
)
def test_its_errors_are_named_by_their_status(status: int, kind: str, code: ErrorCode):
    error = {"type": "error", "error": {"type": kind, "message": "Not now"}}

    outcome = read("anthropic", error, status=status)

    assert_fails(outcome, code, status)
    assert "Not now" in outcome.detail
