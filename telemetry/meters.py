"""What this process counts and times. Labels are words of ours, so there are few of each.

A change costs about a microsecond and no input or output: `relay` hands the numbers over later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

if TYPE_CHECKING:
    from collections.abc import Iterable

# Beside each number the instant of its first change would be told, which nobody asks for.
disable_created_metrics()  # type: ignore[no-untyped-call]  # published so

registry = CollectorRegistry(auto_describe=True)

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
REQUEST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
CLAIM_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
CALL_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 90, 120, 300, 600, 3600)
SWEEP_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def counter(name: str, meaning: str, *labels: str) -> Counter:
    """A count that only grows; its name gets `_total` behind it."""
    return Counter(name, meaning, labels, registry=registry)


def timer(name: str, meaning: str, *labels: str, buckets: Iterable[float]) -> Histogram:
    """Durations in seconds, counted by the limits that they stay under."""
    return Histogram(name, meaning, labels, buckets=tuple(buckets), registry=registry)


accepts = counter(
    "reports_accepts", "POSTs answered 202, by whether they were new or a replay.", "kind"
)
refusals = counter("reports_refusals", "Jobs refused for a budget or a limit, by code.", "code")
ends = counter("reports_ends", "Jobs that reached their end, by status and code.", "status", "code")
unclear_ends = counter(
    "reports_unclear_ends",
    "Jobs that failed with their reservation released although the provider may bill the call.",
    "code",
)
postponed = counter("reports_postponed", "Calls put off for another try, by code.", "code")
dropped_outcomes = counter("reports_dropped_outcomes", "Late outcomes of jobs that had moved on.")
tokens = counter("reports_tokens", "Tokens as the provider reported them, by kind.", "kind")
publishes = counter(
    "reports_publishes", "Ids handed to the broker, by whether it took them.", "outcome"
)
deliveries = counter(
    "reports_webhook_attempts", "Attempts to deliver webhooks, by how they came out.", "outcome"
)
sweeps = timer("reports_sweep_seconds", "How long passes of the sweep took.", buckets=SWEEP_S)
swept = counter("reports_swept", "Rows that the sweep moved, by what it did to them.", "what")
claims = timer(
    "reports_claim_seconds",
    "From accept to claim: how long jobs waited for a worker, by the database's clock.",
    buckets=CLAIM_S,
)
calls = timer(
    "reports_provider_seconds",
    "How long provider calls took, by how they came out.",
    "outcome",
    buckets=CALL_S,
)
requests = timer(
    "reports_http_request_seconds",
    "How long requests took, by the name of their route, method and class of status.",
    "route",
    "method",
    "status",
    buckets=REQUEST_S,
)
