"""What goes over the wire to the provider and what comes back; a protocol is one table row."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from reports.conversation import BETWEEN
from reports.provider import reading, wording
from reports.provider.anthropic import Anthropic
from reports.provider.outcome import Completion, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reports.conversation import Conversation, Message
    from reports.provider.growing import Growing
    from reports.provider.outcome import ProviderConfig, Usage

# Some servers leave the reasoning of a model in front of its answer.
THINK = "<think>"
REASONING = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


class WireProtocol(Protocol):
    """Pure functions: a key to headers, a request to a JSON object, an answer to an outcome."""

    def headers(self, key: str) -> dict[str, str]:
        """Send the key, if there is one, as this protocol wants it."""

    def build(self, asked: Conversation, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request."""

    def read(self, status: int, body: bytes) -> Completion | Failure:
        """Read an answer; the detail of a Failure is not yet safe to show."""

    def fold(self, event: dict[str, object], growing: Growing) -> None:
        """Take one event of an answer that streams; what it does not know it leaves."""

    def conclude(self, growing: Growing) -> Completion | Failure:
        """Read an answer that has streamed to its end, as `read` does a whole one."""

    def shown(self, text: str) -> str:
        """What may be seen of a text that is still coming; it only grows."""


class BearerKey:
    """The key as most servers want it (RFC 6750)."""

    def headers(self, key: str) -> dict[str, str]:
        """Send the key as a bearer token."""
        return {"Authorization": f"Bearer {key}"} if key else {}


class Prompt(BearerKey):
    """`{"prompt"}` to `{"text"}`, optionally with `usage` and `finish_reason`."""

    def build(self, asked: Conversation, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request; this protocol carries no model, limit or role."""
        del config
        return {"prompt": asked.text}

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

    def fold(self, event: dict[str, object], growing: Growing) -> None:
        """Parts of the `text`; `usage` and `finish_reason` come with any of them."""
        growing.say(event.get("text"))
        growing.count(event.get("usage"))
        growing.stop(event.get("finish_reason"))

    def conclude(self, growing: Growing) -> Completion | Failure:
        """The parts joined."""
        if not growing.text.strip():
            return reading.declined({}, "")
        reason = reading.reason(growing.reason)
        return Completion(wording.storable(growing.text), reason, reading.usage(growing.beside))

    def shown(self, text: str) -> str:
        """All of it."""
        return text


class OpenAI(BearerKey):
    """Chat completions as vLLM, llama.cpp, Ollama, LM Studio and the hosted services serve them."""

    def build(self, asked: Conversation, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request."""
        messages = [_as_chat(said) for said in asked.messages]
        # One at most in front: what many models are served with takes no second one there.
        opening = list(takewhile(lambda said: said["role"] == "system", messages))
        told = [config.instructions(asked), *(said["content"] for said in opening)]
        if system := BETWEEN.join(filter(None, told)):
            messages[: len(opening)] = [{"role": "system", "content": system}]
        body: dict[str, object] = {
            "model": config.model,
            "messages": messages,
            "stream": config.streams,
        }
        if config.streams:
            body["stream_options"] = {"include_usage": True}
        if (limit := config.limit(asked)) > 0:
            body[config.max_tokens_field] = limit
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
        return self._outcome(said, choice.get("finish_reason"), reading.usage(answer))

    def fold(self, event: dict[str, object], growing: Growing) -> None:
        """A chunk: parts in `delta`, the reason in the last of them, the usage behind it."""
        growing.count(event.get("usage"))
        choice = reading.first(event.get("choices"))
        said = choice.get("delta")
        if isinstance(said, dict):
            growing.say(reading.joined(said.get("content")))
            growing.refuse(said.get("refusal"))
        growing.stop(choice.get("finish_reason"))

    def conclude(self, growing: Growing) -> Completion | Failure:
        """As the message that the chunks would have been."""
        said: dict[str, object] = {"content": growing.text, "refusal": growing.refusal}
        return self._outcome(said, growing.reason, reading.usage(growing.beside))

    def shown(self, text: str) -> str:
        """Not the reasoning in front, nor what may yet become its beginning."""
        return "" if THINK.startswith(text.lstrip()) else REASONING.sub("", text)

    def _outcome(
        self, said: dict[str, object], finish_reason: object, usage: Usage | None
    ) -> Completion | Failure:
        reason = reading.reason(finish_reason)
        text = REASONING.sub("", reading.joined(said.get("content")))
        if text.strip():
            return Completion(wording.storable(text), reason, usage)
        return reading.declined(said, reason)


def _as_chat(said: Message) -> dict[str, str]:
    # Few servers know the newer name for the system's role.
    role = "system" if said.role == "developer" else said.role
    return {"role": role, "content": said.text}


PROTOCOLS: Mapping[str, WireProtocol] = {
    "prompt": Prompt(),
    "openai": OpenAI(),
    "anthropic": Anthropic(),
}
