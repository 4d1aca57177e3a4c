"""Anthropic's Messages, as Anthropic and some gateways serve them: one more row of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.provider import reading, wording
from reports.provider.outcome import Completion, Failure

if TYPE_CHECKING:
    from reports.provider.outcome import ProviderConfig

VERSION = "2023-06-01"  # the only one that its documentation names
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

    def build(self, prompt: str, config: ProviderConfig) -> dict[str, object]:
        """Build the body of the request; here the limit is required."""
        body: dict[str, object] = {
            "model": config.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": config.max_output_tokens,
        }
        if config.system_prompt:
            body["system"] = config.system_prompt
        return body

    def read(self, status: int, body: bytes) -> Completion | Failure:
        """Read the text blocks; thinking and tool calls are not shown."""
        answer = reading.an_object(status, body)
        if isinstance(answer, Failure):
            return answer
        reason = reading.reason(answer.get("stop_reason"))
        reason = REASONS.get(reason, reason)
        text = reading.joined(answer.get("content"))
        if not text.strip():
            return reading.declined({}, reason)
        usage = reading.usage(answer, prompt="input_tokens", completion="output_tokens")
        return Completion(wording.storable(text), reason, usage)
