"""What goes into a provider call and what it can end in; the one table that names its failures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reports.errors import ErrorCode

if TYPE_CHECKING:
    from reports.conversation import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderConfig:
    """Where the provider is and what it is asked for; `max_output_tokens` 0 sends no limit."""

    # A URL may carry a key in its query, and neither belongs in a traceback or a log.
    url: str = field(repr=False)
    key: str = field(repr=False)
    protocol: str
    model: str
    system_prompt: str = field(repr=False)
    max_output_tokens: int
    max_tokens_field: str
    timeout_s: float
    max_response_bytes: int
    streams: bool = False  # ask for the answer in events; one that comes whole is as good

    def __post_init__(self) -> None:
        if not all("!" <= character <= "~" for character in self.key):
            # http.client would say so too, but with the key in its message.
            raise ValueError("the key holds a character that no HTTP header can carry")

    def limit(self, asked: Conversation) -> int:
        """The most tokens that an answer may have; 0: no limit is sent."""
        wished = asked.max_output_tokens
        if wished is None:
            return self.max_output_tokens
        return min(wished, self.max_output_tokens) if self.max_output_tokens else wished

    def instructions(self, asked: Conversation) -> str:
        """What the model is told before it is asked: the request's own word goes first."""
        return self.system_prompt if asked.instructions is None else asked.instructions


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as the provider reported them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """The provider's answer; `finish_reason` "" and `usage` None mean that it did not say."""

    text: str = field(repr=False)
    finish_reason: str = ""
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no answer; `detail` is short and holds no key, no URL query and no markup.

    `retry_after_s` is set only where the provider certainly did no work: the wait that it asked
    for, 0 where it could not say. None: the call may have been made, and is never made again.
    """

    code: ErrorCode
    http_status: int
    detail: str
    retry_after_s: int | None = None


# Contract section 2, as far as the provider's status does not say it itself.
HTTP_STATUS = {
    ErrorCode.PROVIDER_TIMEOUT: 504,
    ErrorCode.PROVIDER_UNREACHABLE: 503,
    ErrorCode.PROVIDER_INVALID_RESPONSE: 502,
    ErrorCode.WORKER_LOST: 500,
}


def failure(code: ErrorCode, detail: str) -> Failure:
    """Build the failure whose status is ours to name."""
    return Failure(code, HTTP_STATUS[code], detail)


def invalid(detail: str) -> Failure:
    """Build the failure of an answer that is not the expected shape."""
    return failure(ErrorCode.PROVIDER_INVALID_RESPONSE, detail)


def refused(status: int, detail: str) -> Failure:
    """Build the failure of an answer other than 200, named by its status."""
    if 500 <= status <= 599:
        return Failure(ErrorCode.PROVIDER_5XX, status, detail)
    if 200 <= status <= 499:
        return Failure(ErrorCode.PROVIDER_REJECTED, status, detail)
    return invalid(detail)
