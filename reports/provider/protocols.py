"""What goes over the wire to the provider and what comes back; a protocol is one table row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from reports.provider import reading, wording
from reports.provider.anthropic import Anthropic
from reports.provider.outcome import Completion, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.provider.outcome import ProviderConfig

# Some servers leave the reasoning of a model in front of its answer.
REASONING = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


class WireProtocol(Protocol):
    """Pure functions: a key to headers, a prompt to a JSON object, an answer to an outcome."""

    def headers(self, key: str) -> dict[str, str]:
        """Send the key, if there is one, as this protocol wants it."""

    def build(self, prompt: str, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request."""

    def read(self, status: int, body: bytes) -> Completion | Failure:
        """Read an answer; the detail of a Failure is not yet safe to show."""


class BearerKey:
    """The key as most servers want it (RFC 6750)."""

    def headers(self, key: str) -> dict[str, str]:
        """Send the key as a bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}


class Prompt(BearerKey):
    """`{"prompt"}` to `{"text"}`, optionally with `usage` and `finish_reason`."""

    def build(self, prompt: str, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request; this protocol carries neither model nor limit."""
        del config
        return {"prompt": prompt}

    def read(self, status: int, body: bytes) -> Completion | Failure:
        """Read `text`."""
        answer = reading.an_object(status, body)
        if isinstance(answer, Failure):
            return answer
        text = answer.get("text")
        if not isinstance(text, str) or not text.strip():
            return reading.no_text(body)
        return Completion(
            wording.storable(text),
            reading.reason(answer.get("finish_reason")),
            reading.usage(answer),
        )


class OpenAI(BearerKey):
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

    def read(self, status: int, body: bytes) -> Completion | Failure:
        """Read the first choice."""
        answer = reading.an_object(status, body)
        if isinstance(answer, Failure):
            return answer
        choice = reading.first(answer.get("choices"))
        said = choice.get("message")
        if not isinstance(said, dict):
            return reading.no_text(body)
        reason = reading.reason(choice.get("finish_reason"))
        text = REASONING.sub("", reading.joined(said.get("content")))
        if text.strip():
            return Completion(wording.storable(text), reason, reading.usage(answer))
        return reading.declined(said, reason)


PROTOCOLS: Mapping[str, WireProtocol] = {
    "prompt": Prompt(),
    "openai": OpenAI(),
    "anthropic": Anthropic(),
}
