"""What a worker does with a job id: claim the row, ask the provider, finish the row."""

from __future__ import annotations

import logging
import time
from functools import cache
from typing import TYPE_CHECKING, assert_never

from django.conf import settings
from django.db import InterfaceError, OperationalError, connections

from reports import events, inflight, partial, provider, transitions
from reports.errors import ErrorCode
from reports.logs import log_without_values
from reports.provider import Call, Completion, Failure, Growing, ProviderConfig
from telemetry import context, traces

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from uuid import UUID

    from reports.transitions import Claim

FIRST_WAIT_S = 5  # before a second try that names no time itself; doubles
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0

logger = logging.getLogger(__name__)


@cache
def config() -> ProviderConfig:
    """The settings as the seam takes them."""
    return ProviderConfig(
        url=settings.INFERENCE_URL,
        key=settings.INFERENCE_KEY,
        protocol=settings.INFERENCE_PROTOCOL,
        model=settings.INFERENCE_MODEL,
        system_prompt=settings.INFERENCE_SYSTEM_PROMPT,
        max_output_tokens=settings.INFERENCE_MAX_OUTPUT_TOKENS,
        max_tokens_field=settings.INFERENCE_MAX_TOKENS_FIELD,
        timeout_s=settings.INFERENCE_TIMEOUT_S,
        max_response_bytes=settings.INFERENCE_MAX_RESPONSE_BYTES,
        streams=settings.INFERENCE_STREAM,
    )


def run(job_id: UUID, *, published_at: datetime | None = None) -> None:
    """Take one job from queued to its end; one that cannot be claimed is somebody else's."""
    with context.at_work_for(job=job_id):
        _run(job_id, published_at=published_at)


def _run(job_id: UUID, *, published_at: datetime | None) -> None:
    began_ns = traces.now()
    try:
        held = transitions.claim(job_id, published_at=published_at)
    except Exception as error:  # noqa: BLE001  # the edge: Celery would log its message
        log_without_values(error, f"job {job_id} could not be claimed; it is left to the sweep")
        return
    if held is None:
        logger.info("job %s cannot be claimed now: not queued, too old, or put off", job_id)
        return
    traces.record("claim", job_id, began_ns=began_ns)
    lease_ends_at = time.monotonic() + settings.INFERENCE_TIMEOUT_S + settings.LEASE_GRACE_S
    # One call takes a minute and a connection serves thousands: give it back before the wait.
    connections.close_all()
    try:
        outcome = _ask(held, lease_ends_at)
        is_written = _write(lambda: _finish(held, outcome), held, lease_ends_at)
    except Exception as error:  # noqa: BLE001  # the edge: whatever it is, the job must end
        log_without_values(error, f"job {job_id} broke")
        is_written = _break_off(held, lease_ends_at)
    if not is_written:
        events.dropped(job_id)


def _break_off(held: Claim, lease_ends_at: float) -> bool:
    try:
        return _write(
            lambda: transitions.break_off(held, ErrorCode.INTERNAL_ERROR), held, lease_ends_at
        )
    except Exception as error:  # noqa: BLE001  # the edge: Celery would log its message
        log_without_values(error, f"job {held.job_id} is left to the sweep")
        return False


def _ask(held: Claim, lease_ends_at: float) -> Completion | Failure:
    call = Call(str(held.job_id), time.monotonic() + settings.INFERENCE_TIMEOUT_S)
    began, began_ns = time.monotonic(), traces.now()
    growing = Growing()
    with (
        inflight.carrying(held, call),
        partial.following(held.job_id, growing, ends_at=lease_ends_at),
    ):
        outcome = provider.complete(
            held.prompt,
            asked=held.conversation,
            job_id=str(held.job_id),
            config=config(),
            call=call,
            growing=growing,
        )
    events.called(held.job_id, outcome, took_s=time.monotonic() - began, began_ns=began_ns)
    return outcome


def _finish(held: Claim, outcome: Completion | Failure) -> bool:
    match outcome:
        case Completion():
            return transitions.succeed(held, outcome)
        case Failure():
            if _postpone(held, outcome):
                return True
            return transitions.fail(held, outcome)
        case _:
            assert_never(outcome)


def _postpone(held: Claim, failure: Failure) -> bool:
    """Put a job back for another try. False: it had them all, or the call may have been made."""
    if failure.retry_after_s is None or held.attempts >= settings.INFERENCE_MAX_ATTEMPTS:
        return False
    wait_s = max(failure.retry_after_s, FIRST_WAIT_S * 2 ** (held.attempts - 1))
    moved = transitions.postpone(held, wait_s=wait_s)
    if moved:
        events.postponed(held.job_id, code=failure.code, wait_s=wait_s)
    return moved


def _write(finish: Callable[[], bool], held: Claim, lease_ends_at: float) -> bool:
    """Write an outcome; while the lease lasts, wait for a database that is away: it was paid for.

    False: the row had moved on, or the lease ran out first.
    """
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return finish()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() + pause_s > lease_ends_at:
                log_without_values(error, f"job {held.job_id} left to the sweep")
                return False
            logger.warning("job %s: the database is away; its outcome waits", held.job_id)
            connections.close_all()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
