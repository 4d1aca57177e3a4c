"""The seam to the one provider: a prompt goes in, a Completion or a Failure comes out.

It imports neither Django nor any other room but the errors, and raises for our own faults only.
"""

from __future__ import annotations

import dataclasses
import json
import time

from reports.provider import retry_after, transport, wording
from reports.provider.calls import Call
from reports.provider.outcome import Completion, Failure, ProviderConfig, Usage
from reports.provider.protocols import PROTOCOLS

__all__ = ["Call", "Completion", "Failure", "ProviderConfig", "Usage", "complete"]

# With a Retry-After these say that the work was put off, not begun.
BUSY = frozenset({429, 503})


def complete(
    prompt: str, *, job_id: str, config: ProviderConfig, call: Call | None = None
) -> Completion | Failure:
    """Ask the provider once; ends within `config.timeout_s` or at the deadline of `call`.

    Another thread may end it early with `call.abort()`: the Failure is then worker_lost.
    """
    protocol = PROTOCOLS[config.protocol]
    answer = transport.post(
        config.url,
        json.dumps(protocol.build(prompt, config), ensure_ascii=False).encode(),
        {**_headers(job_id), **protocol.headers(config.key)},
        call=call or Call(job_id, time.monotonic() + config.timeout_s),
        max_bytes=config.max_response_bytes,
    )
    if isinstance(answer, Failure):
        return answer
    outcome = protocol.read(answer.status, answer.body)
    if isinstance(outcome, Completion):
        return outcome
    return dataclasses.replace(
        outcome,
        detail=wording.safe(outcome.detail, key=config.key, url=config.url, prompt=prompt),
        retry_after_s=_asked_wait(answer),
    )


def _asked_wait(answer: transport.Answer) -> int | None:
    if answer.status not in BUSY:
        return None
    return retry_after.seconds(answer.headers.get("Retry-After"))


def _headers(job_id: str) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "Idempotency-Key": job_id,
    }
