"""Spans for an OpenTelemetry collector, over OTLP/HTTP. Imported only where traces are asked for.

Everything is recorded: ids of jobs are no random numbers, so a sampler by trace id would not be
fair. Sample in the collector.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

if TYPE_CHECKING:
    from uuid import UUID

KINDS = {
    "accept": SpanKind.SERVER,
    "publish": SpanKind.PRODUCER,
    "claim": SpanKind.CONSUMER,
    "call": SpanKind.CLIENT,
}
LOW_64 = (1 << 64) - 1


class _Ids(RandomIdGenerator, threading.local):
    """Random ids, but for the root of a job's trace, whose ids this thread has named."""

    root: SpanContext | None = None

    def generate_trace_id(self) -> int:
        return self.root.trace_id if self.root else super().generate_trace_id()

    def generate_span_id(self) -> int:
        return self.root.span_id if self.root else super().generate_span_id()


class Exporter:
    """This process's way to the collector: batches, from a thread of its own."""

    def __init__(self, role: str) -> None:
        self._ids = _Ids()
        # Beneath what OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say.
        resource = Resource({"service.name": "reports", "reports.role": role}).merge(
            Resource.create()
        )
        self._provider = TracerProvider(ALWAYS_ON, resource, id_generator=self._ids)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("reports")

    def record(self, name: str, job_id: UUID, *, began_ns: int, is_root: bool, code: str) -> None:
        """One span of a job's trace: the root itself, or one below it."""
        root = SpanContext(
            job_id.int, job_id.int & LOW_64, is_remote=True, trace_flags=TraceFlags(1)
        )
        if is_root:
            above = Context()
            self._ids.root = root
        else:
            above = set_span_in_context(NonRecordingSpan(root), Context())
            self._ids.root = None
        kind = KINDS.get(name, SpanKind.INTERNAL)
        span = self._tracer.start_span(name, above, kind, start_time=began_ns)
        span.set_attribute("reports.job_id", str(job_id))
        if code:
            span.set_attribute("error.type", code)
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def flush(self) -> None:
        """Send what waits, now."""
        self._provider.force_flush()

    def close(self) -> None:
        """Send what waits, and record no more. At the end of a process this happens by itself."""
        self._provider.shutdown()
