"""What a failure says to its owner: the provider's message, without secrets, markup and prompt."""

from __future__ import annotations

import pytest

from reports.provider import Failure, wording
from reports.provider.outcome import invalid
from tests.provider.asking import KEY, read


# Made from the documentation of each server: what a person should read of its errors.
@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        pytest.param(
            429,
            {
                "error": {
                    "message": "Rate limit reached for gpt-4o in organization org-abc on "
                    "requests per min.",
                    "type": "requests",
                    "param": None,
                    "code": "rate_limit_exceeded",
                }
            },
            "Rate limit reached for gpt-4o",
            id="openai",
        ),
        pytest.param(
            400,
            {
                "error": {
                    "message": "This model's maximum context length is 4096 tokens.",
                    "type": "BadRequestError",
                    "param": None,
                    "code": 400,
                }
            },
            "maximum context length is 4096",
            id="vllm",
        ),
        pytest.param(
            400,
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 9,
                    "n_ctx": 8,
                }
            },
            "exceeds the available context size",
            id="llama.cpp",
        ),
        pytest.param(
            404,
            {
                "error": {
                    "message": "model 'x' not found",
                    "type": "not_found_error",
                    "param": None,
                    "code": None,
                }
            },
            "model 'x' not found",
            id="ollama chat",
        ),
        pytest.param(500, {"error": "llama runner ended"}, "llama runner ended", id="ollama"),
        pytest.param(
            529,
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            "Overloaded",
            id="anthropic",
        ),
        pytest.param(
            422,
            {"detail": [{"loc": ["body"], "msg": "field required", "type": "missing"}]},
            "field required",
            id="fastapi",
        ),
        pytest.param(504, b"upstream request timeout", "upstream request timeout", id="gateway"),
    ],
)
def test_the_message_of_a_known_server_is_found(status, body, said):
    outcome = read("openai", body, status=status)

    assert isinstance(outcome, Failure)
    assert said in outcome.detail


@pytest.mark.parametrize(
    "body",
    [b"<html><h1>502 Bad Gateway</h1>", b"", b"{}", b'{"error": null}', b"[" * 50_000, b"\xff\xd8"],
)
def test_a_refusal_without_a_message_is_still_a_sentence(body):
    outcome = read("prompt", body, status=502)

    assert isinstance(outcome, Failure)
    assert outcome.detail.startswith("The provider answered 502 Bad Gateway")
    assert "<" not in outcome.detail


def safe(said, *, prompt="what is the capital of France, please?", url="http://h/"):
    failure = invalid(f"The provider answered 200 without a text: {said}")
    return wording.safe(failure.detail, key=KEY, url=url, prompt=prompt).partition(": ")[2]


@pytest.mark.parametrize(
    ("said", "left"),
    [
        (f"key {KEY} is wrong", "key [removed] is wrong"),
        (f"key '{KEY[:11]}****' is wrong", "key '[removed]' is wrong"),
        (f"key ****{KEY[-6:]} is wrong", "key [removed] is wrong"),
        ("key sk-another-999 is wrong", "key [removed] is wrong"),
        ("got Bearer abc.def, sorry", "got Bearer [removed], sorry"),
        ("see https://me:pw@host/a?token=x#y now", "see https://host/a now"),
        ("no such path /v1?key=x", "no such path /v1"),
        ("no such key CANARY", "no such key [removed]"),
        ("<b>bold</b><script>", "bold"),
        ("1 < 2\nand\x00 \ud83d", "1 2 and\ufffd \ufffd"),
        ("long " * 100, "long " * 39 + "long…"),
    ],
)
def test_a_message_is_made_safe_to_show(said, left):
    assert safe(said, url="http://h/v1?key=CANARY") == left


@pytest.mark.parametrize("prompt", ["capital?", "tell me about the capital of France " * 20])
def test_a_message_that_echoes_the_prompt_is_dropped(prompt):
    assert safe(f"cannot answer: {prompt}", prompt=prompt) == ""


def test_a_message_that_shares_a_word_with_the_prompt_is_kept():
    assert safe("the capital is unknown") == "the capital is unknown"
