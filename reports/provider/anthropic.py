"""Anthropic's Messages, as Anthropic and some gateways serve them: one more row of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.conversation import ASSISTANT, BETWEEN, USER
from reports.provider import reading, wording
from reports.provider.outcome import Completion, Failure

if TYPE_CHECKING:
    from reports.conversation import Conversation
    from reports.provider.growing import Growing
    from reports.provider.outcome import ProviderConfig

VERSION = "2023-06-01"  # the only one that its documentation names
SPEAKERS = {USER, ASSISTANT}
# Its words for what the others call so; the pages and the API know these.
REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}


class Anthropic:
    """Messages: a list of content blocks comes back, of which the text is the answer."""

    def headers(self, key: str) -> dict[str, str]:
        """Send the key under a name of its own, beside the version of the protocol."""
        named = {"anthropic-version": VERSION}
        return {**named, "x-api-key": key} if key else named

    def build(self, asked: Conversation, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request; the limit is required, and no message is the system's."""
        said = [message for message in asked.messages if message.role in SPEAKERS]
        told = [message.text for message in asked.messages if message.role not in SPEAKERS]
        system = BETWEEN.join(filter(None, [config.instructions(asked), *told]))
        body: dict[str, object] = {
            "model": config.model,
            "messages": [{"role": message.role, "content": message.text} for message in said],
            "max_tokens": config.limit(asked),
        }
        if config.streams:
            body["stream"] = True
        if system:
            body["system"] = system
        return body

    def read(self, status: int, body: bytes) -> Completion | Failure:
        """Read the text blocks; thinking and tool calls are not shown."""
        answer = reading.an_object(status, body)
        if isinstance(answer, Failure):
            return answer
        text = reading.joined(answer.get("content"))
        return self._outcome(text, answer.get("stop_reason"), answer)

    def fold(self, event: dict[str, object], growing: Growing) -> None:
        """An event by its `type`; counts come at both ends, and the last are the whole."""
        for name in ("message", "delta", "content_block"):
            said = event.get(name)
            if not isinstance(said, dict):
                continue
            growing.count(said.get("usage"))
            if said.get("type") in {"text", "text_delta"}:
                growing.say(said.get("text"))
            if event.get("type") == "message_delta":
                growing.stop(said.get("stop_reason"))
        growing.count(event.get("usage"))
        growing.is_done |= event.get("type") == "message_stop"

    def conclude(self, growing: Growing) -> Completion | Failure:
        """As the message that the events would have been."""
        return self._outcome(growing.text, growing.reason, growing.beside)

    def shown(self, text: str) -> str:
        """All of it: thinking comes in blocks of another type."""
        return text

    def _outcome(
        self, text: str, stop_reason: object, beside: dict[str, object]
    ) -> Completion | Failure:
        reason = reading.reason(stop_reason)
        reason = REASONS.get(reason, reason)
        if not text.strip():
            return reading.declined({}, reason)
        usage = reading.usage(beside, prompt="input_tokens", completion="output_tokens")
        return Completion(wording.storable(text), reason, usage)
