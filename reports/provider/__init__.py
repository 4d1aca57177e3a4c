"""The seam to the one provider: a prompt goes in, a Completion or a Failure comes out.

It imports neither Django nor any other room but errors and values, and raises for our own faults
only.
"""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING

from reports.conversation import USER, Conversation, Message
from reports.errors import ErrorCode
from reports.provider import retry_after, transport, wording
from reports.provider.calls import Call
from reports.provider.growing import BEGINNINGS, MEDIA_TYPE, Growing, Taking
from reports.provider.outcome import Completion, Failure, ProviderConfig, Usage
from reports.provider.protocols import PROTOCOLS

if TYPE_CHECKING:
    from reports.provider.protocols import WireProtocol

__all__ = ["Call", "Completion", "Failure", "Growing", "ProviderConfig", "Usage", "complete"]

# With a Retry-After these say that the work was put off, not begun.
BUSY = frozenset({429, 503})


def complete(
    prompt: str,
    *,
    job_id: str,
    config: ProviderConfig,
    call: Call | None = None,
    growing: Growing | None = None,
    asked: Conversation | None = None,
) -> Completion | Failure:
    """Ask the provider once; ends within `config.timeout_s` or at the deadline of `call`.

    Another thread may end it early with `call.abort()`: the Failure is then worker_lost. Others may
    look at what the text has come to in `growing`, where the provider streams. What was `asked` in
    messages goes out in them, and the prompt is then not looked at.
    """
    asked = asked or Conversation(messages=(Message(USER, prompt),))
    protocol = PROTOCOLS[config.protocol]
    taking = Taking(protocol, growing or Growing())
    answer = transport.post(
        config.url,
        json.dumps(protocol.build(asked, config), ensure_ascii=False).encode(),
        {**_headers(job_id, config), **protocol.headers(config.key)},
        call=call or Call(job_id, time.monotonic() + config.timeout_s),
        max_bytes=config.max_response_bytes,
        taking=taking,
    )
    if isinstance(answer, Failure):
        return _whole_in_spite_of(answer, taking)
    outcome = _read(protocol, answer, taking)
    if isinstance(outcome, Completion):
        return outcome
    return dataclasses.replace(
        outcome,
        detail=wording.safe(outcome.detail, key=config.key, url=config.url, prompt=asked.text),
        retry_after_s=_asked_wait(answer),
    )


def _read(protocol: WireProtocol, answer: transport.Answer, taking: Taking) -> Completion | Failure:
    if answer.status == 200 and not answer.was_taken and answer.body.startswith(BEGINNINGS):
        taking.feed(answer.body)  # a stream under another name
    elif not answer.was_taken:
        return protocol.read(answer.status, answer.body)
    return taking.outcome()


def _whole_in_spite_of(failure: Failure, taking: Taking) -> Completion | Failure:
    """A stream that had said its last word before its connection broke is an answer."""
    if taking.growing.is_done and failure.code is not ErrorCode.WORKER_LOST:
        outcome = taking.outcome()
        return outcome if isinstance(outcome, Completion) else failure
    return failure


def _asked_wait(answer: transport.Answer) -> int | None:
    if answer.status not in BUSY:
        return None
    return retry_after.seconds(answer.headers.get("Retry-After"))


def _headers(job_id: str, config: ProviderConfig) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": f"application/json, {MEDIA_TYPE}" if config.streams else "application/json",
        "Accept-Encoding": "gzip, deflate",
        "Idempotency-Key": job_id,
    }
