"""One trace a job, from the POST over the queue to the provider; off unless it is asked for.

A message holds a job id and nothing else, so the trace is worked out from it on either side: its id
is the 128 bits of the UUID, and every span hangs below that of the accept. While off, nothing of
OpenTelemetry is imported and a span costs one comparison.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from django.conf import settings

if TYPE_CHECKING:
    from uuid import UUID


class Recorder(Protocol):
    """Writes spans down."""

    def record(self, name: str, job_id: UUID, *, began_ns: int, is_root: bool, code: str) -> None:
        """One span, which ends now."""


_recorder: Recorder | None = None


def start(role: str) -> None:
    """Record from now on, if OTEL_EXPORTER_OTLP_ENDPOINT is set; `role` is web or worker."""
    global _recorder  # noqa: PLW0603  # one a process, like the connection behind it
    if settings.OTEL_EXPORTER_OTLP_ENDPOINT and _recorder is None:
        from telemetry import otel  # noqa: PLC0415  # an optional install

        _recorder = otel.Exporter(role)


def now() -> int:
    """When a span begins: nanoseconds since 1970; 0 while nothing is recorded."""
    return time.time_ns() if _recorder else 0


def record(
    name: str, job_id: UUID, *, began_ns: int, is_root: bool = False, code: str = ""
) -> None:
    """Write down what began then and ends now; `code` says how it failed."""
    if _recorder:
        _recorder.record(name, job_id, began_ns=began_ns, is_root=is_root, code=code)
