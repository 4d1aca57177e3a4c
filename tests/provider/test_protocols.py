"""Both protocols as pure functions on bytes."""

from __future__ import annotations

import dataclasses

import pytest

from reports.conversation import Conversation, Message
from reports.errors import ErrorCode
from reports.provider import Completion, Failure, Usage
from reports.provider.protocols import PROTOCOLS
from tests.provider.asking import CONFIG, read

WHY = Conversation(messages=(Message("user", "why?"),))
CHAT = dataclasses.replace(CONFIG, protocol="openai", model="small", max_output_tokens=0)


def chat(content, *, finish_reason="stop", usage=None, **message):
    choice = {"message": {"content": content, **message}, "finish_reason": finish_reason}
    return {"choices": [choice], "usage": usage}


def test_prompt_sends_the_prompt_and_nothing_else():
    config = dataclasses.replace(CHAT, max_output_tokens=5, system_prompt="be kind")

    assert PROTOCOLS["prompt"].build(WHY, config) == {"prompt": "why?"}


def test_openai_sends_a_plain_conversation():
    assert PROTOCOLS["openai"].build(WHY, CHAT) == {
        "model": "small",
        "messages": [{"role": "user", "content": "why?"}],
        "stream": False,
    }


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_openai_sends_the_system_prompt_first_and_one_limit_by_its_configured_name(field):
    config = dataclasses.replace(
        CHAT, system_prompt="be kind", max_output_tokens=64, max_tokens_field=field
    )

    assert PROTOCOLS["openai"].build(WHY, config) == {
        "model": "small",
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "why?"},
        ],
        "stream": False,
        field: 64,
    }


def test_an_answer_is_read_whole():
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}

    assert read("openai", chat("hello", usage=usage)) == Completion("hello", "stop", Usage(5, 7))
    assert read("prompt", {"text": "hello", "usage": usage}) == Completion("hello", "", Usage(5, 7))


@pytest.mark.parametrize("reason", ["length", "content_filter", "abort", "something new"])
def test_a_text_succeeds_and_keeps_its_finish_reason(reason):
    assert read("openai", chat("half of", finish_reason=reason)) == Completion("half of", reason)


@pytest.mark.parametrize("reason", [None, "", 7, ["stop"]])
def test_a_finish_reason_that_is_none_is_unknown(reason):
    assert read("openai", chat("hello", finish_reason=reason)) == Completion("hello", "")


def test_a_finish_reason_fits_its_column():
    outcome = read("openai", chat("hello", finish_reason="x" * 1000))

    assert outcome == Completion("hello", "x" * 64)


@pytest.mark.parametrize("count", [None, True, -1, 1.0, "5", 2**31, [1], {}])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_count_that_is_none_makes_the_usage_unknown(count, name):
    usage = {"prompt_tokens": 5, "completion_tokens": 7} | {name: count}

    assert read("openai", chat("hello", usage=usage)) == Completion("hello", "stop", None)


def test_counts_at_their_bounds_are_read():
    usage = {"prompt_tokens": 0, "completion_tokens": 2**31 - 1}

    assert read("openai", chat("a", usage=usage)) == Completion("a", "stop", Usage(0, 2**31 - 1))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "9" * 5000, "1e999"])
def test_a_number_that_no_integer_holds_makes_the_usage_unknown(number):
    body = b'{"text": "hi", "usage": {"prompt_tokens": COUNT, "completion_tokens": 1}}'

    assert read("prompt", body.replace(b"COUNT", number.encode())) == Completion("hi")


def test_parts_are_joined_and_reasoning_is_left_out():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "secret"}]},
        {"type": "text", "text": "hello"},
        {"type": "reasoning", "text": "secret"},
        "secret",
        {"type": "text", "text": None},
        {"type": "text", "text": " world"},
    ]

    assert read("openai", chat(parts)) == Completion("hello world", "stop")


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_never_the_answer(field):
    outcome = read("openai", chat(None, finish_reason="length", **{field: "secret plan"}))

    assert isinstance(outcome, Failure)
    assert outcome.code == ErrorCode.PROVIDER_INVALID_RESPONSE
    assert "INFERENCE_MAX_OUTPUT_TOKENS" in outcome.detail
    assert "secret" not in outcome.detail


def test_reasoning_in_front_of_the_answer_is_cut_off():
    assert read("openai", chat("<think>\nsecret\n</think>\n\nhello")) == Completion("hello", "stop")
    assert isinstance(read("openai", chat("<think>secret", finish_reason="length")), Failure)
    assert read("openai", chat("Use <think> here")) == Completion("Use <think> here", "stop")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (chat(None, finish_reason="content_filter"), "content filter"),
        (chat(None, refusal="I cannot help with that."), "I cannot help with that."),
        (chat("", finish_reason="tool_calls"), "tool"),
        (chat(" \n", finish_reason="stop"), "empty text"),
        ({"error": {"message": "no such model"}}, "no such model"),
    ],
)
def test_an_answer_without_text_says_why(answer, said):
    outcome = read("openai", answer)

    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.http_status) == (ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
    assert said in outcome.detail


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>welcome</html>",
        b"[" * 100_000,
        b'{"text": "hello"',
        b'{"text": "\xff\xfe',
        '{"text": "hello", "choices": []}'.encode("utf-16"),
        b"null",
        b'"text"',
        b'{"text": " ", "choices": [{"message": {"content": " "}}]}',
        b'{"text": 1, "choices": [[1]]}',
    ],
)
def test_a_body_of_another_shape_is_invalid(protocol, body):
    outcome = read(protocol, body)

    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.http_status) == (ErrorCode.PROVIDER_INVALID_RESPONSE, 502)


def test_text_is_made_storable_and_nothing_else_is_touched():
    body = b'\xef\xbb\xbf{"text": "caf\xc3\xa9 \xe9 \\u0000 \\ud83d \\ud83d\\ude00\\n "}'

    assert read("prompt", body) == Completion("café \ufffd \ufffd \ufffd 😀\n ")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((status, ErrorCode.PROVIDER_5XX) for status in (500, 503, 529, 599)),
        *((status, ErrorCode.PROVIDER_REJECTED) for status in (201, 204, 302, 400, 418, 499)),
    ],
)
def test_a_status_other_than_200_names_the_failure(status, code):
    outcome = read("prompt", {"text": "not read"}, status=status)

    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.http_status) == (code, status)
    assert str(status) in outcome.detail


@pytest.mark.parametrize("status", [0, 100, 199, 600, 999])
def test_a_status_out_of_range_is_invalid(status):
    outcome = read("prompt", {"text": "not read"}, status=status)

    assert isinstance(outcome, Failure)
    assert (outcome.code, outcome.http_status) == (ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
