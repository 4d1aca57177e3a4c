"""Answers that come in events: read as they come, and worth what a whole answer is."""

from __future__ import annotations

import dataclasses
import gzip
import json
import threading
import time
from itertools import pairwise
from typing import Any

import pytest

from reports import provider
from reports.errors import ErrorCode
from reports.provider import Call, Completion, Growing, Usage
from reports.provider.growing import Taking
from reports.provider.protocols import PROTOCOLS
from tests.provider.asking import CONFIG, ask, assert_fails
from tests.support.provider import Answer
from tests.support.waiting import until

EVENTS = {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"}
STREAMED: dict[str, Any] = {"streams": True, "protocol": "openai"}


def chat(content=None, *, reason=None, usage=None, **delta):
    """A chunk of chat completions."""
    if content is not None:
        delta["content"] = content
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": usage}


WORDS = [chat("Hel", role="assistant"), chat("lo"), chat(" wörld"), chat(reason="stop")]
USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}
MESSAGES = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " wörld"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
    {"type": "message_stop"},
]
PROMPTS = [
    {"text": "Hello"},
    {"text": " wörld"},
    {"finish_reason": "stop", "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
]
WHOLE = {"openai": [*WORDS, USAGE], "anthropic": MESSAGES, "prompt": PROMPTS}
DONE = {"openai": "data: [DONE]\n\n", "anthropic": "", "prompt": ""}


def written(events, *, line_end="\n"):
    """The bytes of events."""
    told = "".join(
        f"event: {event.get('type', 'x')}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        for event in events
    )
    return told.replace("\n", line_end).encode()


def chunked(*pieces):
    """A chunked body; without the empty one it is cut."""
    return b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)


def streamed(*pieces, **how):
    """An answer in chunks."""
    return Answer(chunked(*pieces), headers=EVENTS, **how)


def read(protocol, raw, *, size):
    """What these bytes come to when they come in pieces of this size."""
    taking = Taking(PROTOCOLS[protocol], Growing())
    for at in range(0, len(raw), size):
        taking.feed(raw[at : at + size])
    return taking.outcome()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("size", [1, 2, 7, 64, 100_000])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_is_read_however_it_is_cut_into_pieces(protocol, size, line_end):
    raw = b": hello\n\n" + written(WHOLE[protocol], line_end=line_end) + DONE[protocol].encode()

    assert read(protocol, raw, size=size) == Completion("Hello wörld", "stop", Usage(5, 3))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_without_its_end_was_cut(protocol):
    how_many = {"openai": 3, "anthropic": 8, "prompt": 2}[protocol]

    outcome = read(protocol, written(WHOLE[protocol][:how_many]), size=50)

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
    assert "cut short" in outcome.detail


@pytest.mark.parametrize("end", [b"", b"data: [DONE]", b"data: [DONE]\n\n"])
def test_what_is_said_behind_the_reason_may_be_missing(end):
    assert read("openai", written(WORDS) + end, size=50) == Completion("Hello wörld", "stop")


def test_an_end_without_a_reason_is_an_end():
    raw = written(WORDS[:3]) + b"data: [DONE]\n\n"

    assert read("openai", raw, size=50) == Completion("Hello wörld")


@pytest.mark.parametrize(
    ("events", "detail"),
    [
        ([{"error": {"message": "the model fell over"}}], "the model fell over"),
        ([{"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}], "Busy"),
        ([{"error": "out of memory"}], "out of memory"),
        ([chat(reason="content_filter")], "content filter"),
        ([chat(refusal="I will "), chat(refusal="not", reason="stop")], "I will not"),
        ([chat(reason="length")], "INFERENCE_MAX_OUTPUT_TOKENS"),
        ([chat("  ", reason="stop")], "empty text"),
    ],
)
def test_a_stream_that_ends_badly_says_why(events, detail):
    outcome = read("openai", written(events), size=50)

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
    assert detail in outcome.detail


@pytest.mark.parametrize("data", [b"nonsense", b"[1]", b'"a"', b"{", b"[" * 100_000])
def test_an_event_that_is_no_object_is_no_answer(data):
    outcome = read("openai", written(WORDS) + b"data: " + data + b"\n\n", size=500)

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)


def test_half_a_character_waits_for_the_other_half():
    taking = Taking(PROTOCOLS["openai"], Growing())
    shown = []
    for half in ('"a\\ud83d"', '"\\ude00b"'):
        taking.feed(b'data: {"choices": [{"delta": {"content": %s}}]}\n\n' % half.encode())
        shown.append(taking.growing.shown)
    taking.feed(b"data: [DONE]\n\n")

    assert shown == ["a", "a\N{GRINNING FACE}b"]
    assert taking.outcome() == Completion("a\N{GRINNING FACE}b")


def test_reasoning_in_front_is_never_shown_and_what_is_shown_only_grows():
    taking = Taking(PROTOCOLS["openai"], Growing())
    shown = []
    for part in "\n<think>a secret</think>\n\nHello <think> there":
        taking.feed(written([chat(part)]))
        shown.append(taking.growing.shown)

    assert shown[-1] == "Hello <think> there"
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_is_asked_for_as_the_protocol_has_it(server, protocol):
    ask(server.url, protocol=protocol, streams=True, max_output_tokens=9)
    ask(server.url, protocol=protocol, max_output_tokens=9)

    asked, not_asked = server.calls
    assert asked.headers["accept"] == "application/json, text/event-stream"
    assert not_asked.headers["accept"] == "application/json"
    more = {name: asked.json[name] for name in asked.json if name in {"stream", "stream_options"}}
    assert (
        more
        == {
            "prompt": {},
            "openai": {"stream": True, "stream_options": {"include_usage": True}},
            "anthropic": {"stream": True},
        }[protocol]
    )
    assert not not_asked.json.get("stream")
    assert "stream_options" not in not_asked.json


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_over_the_wire_is_one_call_and_keeps_its_connection(server, protocol):
    raw = written(WHOLE[protocol])
    answer = streamed(raw[:90], raw[90:], DONE[protocol].encode() or b":\n\n", b"")
    server.script(answer)

    outcomes = [ask(server.url, protocol=protocol, streams=True) for _ in range(2)]

    assert outcomes == [Completion("Hello wörld", "stop", Usage(5, 3))] * 2
    assert [call.connection for call in server.calls] == [1, 1]


def test_a_provider_that_ignores_the_wish_is_read_whole(server):
    body = {"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}
    server.script(Answer.of(body))

    assert ask(server.chat_url, **STREAMED) == Completion("hello", "stop")


@pytest.mark.parametrize("streams", [True, False])
def test_a_stream_that_nobody_asked_for_or_under_another_name_is_read(server, streams):
    headers = {"Content-Type": "text/plain"}
    server.script(Answer(written(WORDS), headers=headers), streamed(written(WORDS), b""))

    outcomes = [ask(server.chat_url, protocol="openai", streams=streams) for _ in range(2)]

    assert outcomes == [Completion("Hello wörld", "stop")] * 2


def test_a_packed_stream_is_read(server):
    packed = gzip.compress(written(WORDS))
    server.script(
        Answer(
            chunked(packed[:20], packed[20:], b""), headers={**EVENTS, "Content-Encoding": "gzip"}
        )
    )

    assert ask(server.chat_url, **STREAMED) == Completion("Hello wörld", "stop")


def test_a_text_can_be_seen_while_it_grows(server):
    server.script(streamed(*(written([event]) for event in WORDS), b"", drip=(60, 0.05)))
    growing = Growing()
    seen: list[str] = []

    def look():
        while thread.is_alive():
            if growing.shown not in seen:
                seen.append(growing.shown)

    config = dataclasses.replace(CONFIG, url=server.chat_url, **STREAMED)
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(
            provider.complete("hi", job_id="job-1", config=config, growing=growing)
        )
    )
    thread.start()
    look()
    thread.join()

    assert outcomes == [Completion("Hello wörld", "stop")]
    assert {"Hel", "Hello"} <= set(seen)


@pytest.mark.parametrize(
    "how",
    [
        {"reset_after": 150},
        {"keep_open": False},
    ],
)
def test_a_connection_that_breaks_in_the_middle_is_a_cut_answer(server, how):
    server.script(streamed(written(WORDS[:2]), **how))

    outcome = ask(server.chat_url, **STREAMED)

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
    assert len(server.calls) == 1


def test_a_connection_that_breaks_behind_the_last_word_is_an_answer(server):
    server.script(streamed(written(WORDS) + b"data: [DONE]\n\n", keep_open=False))

    assert ask(server.chat_url, **STREAMED) == Completion("Hello wörld", "stop")


def test_the_deadline_counts_the_whole_stream(server):
    server.script(streamed(written(WORDS[:1]), endless=chunked(b":\n\n"), drip=(3, 0.05)))

    began = time.monotonic()
    outcome = ask(server.chat_url, timeout_s=0.5, **STREAMED)

    assert_fails(outcome, ErrorCode.PROVIDER_TIMEOUT, 504)
    assert time.monotonic() - began < 1.5


def test_a_stream_can_be_ended_by_another_thread(server):
    server.script(streamed(written(WORDS), endless=chunked(b":\n\n"), drip=(50, 0.01)))
    call, growing = Call("job-1", time.monotonic() + 10), Growing()

    def abort():
        until(lambda: growing.is_done)
        call.abort()

    thread = threading.Thread(target=abort)
    thread.start()
    config = dataclasses.replace(CONFIG, url=server.chat_url, **STREAMED)
    outcome = provider.complete("hi", job_id="job-1", config=config, call=call, growing=growing)
    thread.join()

    assert_fails(outcome, ErrorCode.WORKER_LOST, 500)


@pytest.mark.parametrize(
    "unit", [written([chat("x" * 400)]), b": nothing\n\n" * 400, b"data: " + b"x" * 4000]
)
def test_a_stream_is_read_up_to_its_limit(server, unit):
    server.script(streamed(written(WORDS[:1]), endless=chunked(unit)))

    outcome = ask(server.chat_url, max_response_bytes=2048, **STREAMED)

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
    assert "INFERENCE_MAX_RESPONSE_BYTES" in outcome.detail


def test_of_a_stream_the_text_counts_and_not_what_is_around_it(server):
    words = [chat("word ") for _ in range(100)]
    raw = written([*words, chat(reason="stop")])
    assert len(raw) > 8 * 1024
    server.script(streamed(raw, b""))

    outcome = ask(server.chat_url, max_response_bytes=1024, **STREAMED)

    assert outcome == Completion("word " * 100, "stop")


def test_what_a_provider_says_when_it_breaks_off_is_made_safe(server):
    said = f"bad <b>key</b> {CONFIG.key} for: tell me a long secret about the moon"
    server.script(streamed(written([*WORDS[:1], {"error": {"message": said}}]), b""))

    outcome = ask(server.chat_url, "tell me a long secret about the moon", **STREAMED)

    assert_fails(outcome, ErrorCode.PROVIDER_INVALID_RESPONSE, 502)
    assert "moon" not in outcome.detail
