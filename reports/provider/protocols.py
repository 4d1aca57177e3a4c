"""What goes over the wire to the provider and what comes back; a protocol is one table row."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Protocol, TypeGuard

from reports.provider import wording
from reports.provider.outcome import Completion, Failure, Usage, invalid, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.provider.outcome import ProviderConfig

LARGEST_COUNT = 2**31 - 1
LONGEST_NUMBER = 19  # digits; more of them cost time to read and fit nowhere
LONGEST_REASON = 64
# Some servers leave the reasoning of a model in front of its answer.
REASONING = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)

NO_TEXT = {
    "length": "The whole output limit was spent before the first word of an answer, on reasoning "
    "it seems. Raise INFERENCE_MAX_OUTPUT_TOKENS or ask for less.",
    "content_filter": "The provider's content filter held the answer back. Word the prompt "
    "differently and send it as a new job.",
    "tool_calls": "The model asked for a tool instead of answering, and there are none here.",
}


class WireProtocol(Protocol):
    """Two pure functions: a prompt to a JSON object, the bytes of an answer to an outcome."""

    def build(self, prompt: str, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request."""

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion | Failure:
        """Read an answer; the detail of a Failure is not yet safe to show."""


class Prompt:
    """`{"prompt"}` to `{"text"}`, optionally with `usage` and `finish_reason`."""

    def build(self, prompt: str, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request; this protocol carries neither model nor limit."""
        del config
        return {"prompt": prompt}

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion | Failure:
        """Read `text`."""
        del headers
        answer = _object(status, body)
        if isinstance(answer, Failure):
            return answer
        text = answer.get("text")
        if not isinstance(text, str) or not text.strip():
            return _no_text(body)
        return Completion(
            wording.storable(text), _reason(answer.get("finish_reason")), _usage(answer)
        )


class OpenAI:
    """Chat completions as vLLM, llama.cpp, Ollama, LM Studio and the hosted services serve them."""

    def build(self, prompt: str, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request."""
        messages = [{"role": "user", "content": prompt}]
        if config.system_prompt:
            messages.insert(0, {"role": "system", "content": config.system_prompt})
        body: dict[str, object] = {"model": config.model, "messages": messages, "stream": False}
        if config.max_output_tokens > 0:
            body[config.max_tokens_field] = config.max_output_tokens
        return body

    def read(self, status: int, headers: Mapping[str, str], body: bytes) -> Completion | Failure:
        """Read the first choice."""
        del headers
        answer = _object(status, body)
        if isinstance(answer, Failure):
            return answer
        choice = _first(answer.get("choices"))
        said = choice.get("message")
        if not isinstance(said, dict):
            return _no_text(body)
        reason = _reason(choice.get("finish_reason"))
        text = REASONING.sub("", _joined(said.get("content")))
        if text.strip():
            return Completion(wording.storable(text), reason, _usage(answer))
        return _declined(said, reason)


PROTOCOLS: Mapping[str, WireProtocol] = {"prompt": Prompt(), "openai": OpenAI()}


def _object(status: int, body: bytes) -> dict[str, object] | Failure:
    if status != 200:
        return refused(status, wording.of_refusal(status, body))
    try:
        # Always UTF-8 (RFC 8259 section 8.1), whatever the headers say, with or without a mark.
        answer = json.loads(body.decode("utf-8-sig", errors="replace"), parse_int=_number)
    except (ValueError, RecursionError):
        return invalid("The provider answered 200 with something that is not JSON.")
    if not isinstance(answer, dict):
        return invalid("The provider answered 200 with JSON that is not an object.")
    return answer


def _number(digits: str) -> float:
    return int(digits) if len(digits) <= LONGEST_NUMBER else math.inf


def _no_text(body: bytes) -> Failure:
    said = wording.message(body)
    return invalid("The provider answered 200 without a text" + (f": {said}" if said else "."))


def _declined(said: dict[str, object], reason: str) -> Failure:
    refusal = said.get("refusal")
    if isinstance(refusal, str) and refusal.strip():
        return invalid(f"The model refused (word the prompt differently): {refusal}")
    return invalid(NO_TEXT.get(reason, "The provider answered 200 with an empty text."))


def _first(choices: object) -> dict[str, object]:
    found = choices[0] if isinstance(choices, list) and choices else None
    return found if isinstance(found, dict) else {}


def _joined(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (p.get("text") for p in parts if isinstance(p, dict) and p.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def _reason(value: object) -> str:
    return wording.storable(value)[:LONGEST_REASON] if isinstance(value, str) else ""


def _usage(answer: dict[str, object]) -> Usage | None:
    reported = answer.get("usage")
    if not isinstance(reported, dict):
        return None
    prompt, completion = reported.get("prompt_tokens"), reported.get("completion_tokens")
    if _is_count(prompt) and _is_count(completion):
        return Usage(prompt, completion)
    return None


def _is_count(value: object) -> TypeGuard[int]:
    # `True` is an integer to Python and none to us.
    return type(value) is int and 0 <= value <= LARGEST_COUNT
