"""What a supervisor asks, and this document itself: routes that are not DRF's."""

from __future__ import annotations

from typing import Any, Final

from openapi import headers
from openapi.answers import ALWAYS, empty, refused
from reports import errors
from reports.parsing import JSON

OPENAPI_JSON: Final = "application/vnd.oai.openapi+json"
YAML: Final = "application/yaml"
NDJSON: Final = "application/x-ndjson"
# These answer for themselves when the database is away.
MOSTLY: Final = tuple(kind for kind in ALWAYS if kind is not errors.Unavailable)
FORMAT: Final = {
    "name": "format",
    "in": "query",
    "description": "Goes before the Accept header.",
    "schema": {"type": "string", "enum": ["json", "yaml"]},
}


def _read(
    operation_id: str, tag: str, summary: str, responses: dict[str, Any], *parameters: Any
) -> dict[str, Any]:
    operation = {"operationId": operation_id, "tags": [tag], "summary": summary, "security": []}
    if parameters:
        operation["parameters"] = [*parameters]
    return {"get": operation | {"responses": responses}}


def _told(description: str, media_type: str, schema: dict[str, Any], example: Any) -> Any:
    return empty(description) | {"content": {media_type: {"schema": schema, "example": example}}}


def _readiness(status: str) -> str:
    return f'{{"part": "database", "status": "{status}"}}\n'


HEALTH: Final = _read(
    "isServing",
    "operations",
    "Whether the process serves",
    {
        "200": _told(
            "It does.",
            JSON,
            {"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]},
            {"status": "ok"},
        ),
        **refused(errors.MethodNotAllowed),
    },
)
READINESS: Final = _read(
    "isReady",
    "operations",
    "Whether database, broker and a worker do their part",
    {
        "200": _told("All do.", NDJSON, {"type": "string"}, _readiness("ok")),
        **refused(*MOSTLY),
        "503": _told("Some do not.", NDJSON, {"type": "string"}, _readiness("cannot be reached")),
    },
)
METRICS: Final = _read(
    "getMetrics",
    "operations",
    "Counters and histograms for Prometheus",
    {
        "200": _told(
            "In the text format that was asked for.", "text/plain", {"type": "string"}, "# EOF\n"
        ),
        **refused(*MOSTLY),
    },
)
SCHEMA: Final = _read(
    "getSchema",
    "operations",
    "This document",
    {
        "200": empty("OpenAPI 3.1.", {"ETag": headers.ETAG})
        | {
            "content": {
                media_type: {"schema": {"type": "object"}}
                for media_type in (JSON, OPENAPI_JSON, YAML)
            }
        },
        "304": empty("It is as you have it.", {"ETag": headers.ETAG}),
        **refused(*MOSTLY, errors.InvalidRequest),
    },
    FORMAT,
    headers.IF_NONE_MATCH,
)
# By the names of their routes; one that urls.py does not have is left out.
BY_ROUTE: Final = {
    "healthz": HEALTH,
    "readyz": READINESS,
    "metrics": METRICS,
    "schema": SCHEMA,
}
