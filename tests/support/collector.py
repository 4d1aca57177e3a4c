"""A collector of OpenTelemetry on loopback: it keeps what it gets."""

from __future__ import annotations

import gzip
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from uuid import UUID

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Span:
    """What a test wants to know of one."""

    name: str
    role: str
    job_id: UUID
    span_id: int
    above: int  # 0 for the root
    code: str
    took_ns: int


@dataclass(slots=True)
class Collector:
    """Where to send spans, and those that came."""

    url: str = ""
    spans: list[Span] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def take(self, body: bytes) -> None:
        """One request of an exporter."""
        self.raw.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            told = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    words = {pair.key: pair.value.string_value for pair in span.attributes}
                    self.spans.append(
                        Span(
                            name=span.name,
                            role=told["reports.role"],
                            job_id=UUID(bytes=span.trace_id),
                            span_id=int.from_bytes(span.span_id),
                            above=int.from_bytes(span.parent_span_id),
                            code=words.get("error.type", ""),
                            took_ns=span.end_time_unix_nano - span.start_time_unix_nano,
                        )
                    )

    def of(self, job_id: UUID) -> dict[str, Span]:
        """One job's spans by name."""
        return {span.name: span for span in self.spans if span.job_id == job_id}


@contextmanager
def running() -> Iterator[Collector]:
    """A collector that listens inside the block."""
    collector = Collector()

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_zipped = self.headers.get("Content-Encoding") == "gzip"
            collector.take(gzip.decompress(body) if is_zipped else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Taking) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        yield collector
        server.shutdown()
