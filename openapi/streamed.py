"""A response in events: what the operation takes and answers where they are asked for."""

from __future__ import annotations

import json
from typing import Any, Final

from openapi import headers
from streams.frames import MEDIA_TYPE
from streams.openai import NO_TEXT

PARAMETERS: Final[list[dict[str, Any]]] = [
    {
        "name": "stream",
        "in": "query",
        "description": "`true`: its events as they happen, with OpenAI's types and numbers, until "
        "it has ended.",
        "schema": {"type": "boolean"},
    },
    {
        "name": "starting_after",
        "in": "query",
        "description": "Only events of a larger `sequence_number`: that of the last one you have.",
        "schema": {"type": "integer", "minimum": 0, "maximum": NO_TEXT},
    },
]


def or_events(polled: dict[str, Any], created: dict[str, Any]) -> dict[str, Any]:
    """An answer that is an event stream instead, where `stream` is true; it begins like this."""
    event = {"type": "response.created", "sequence_number": 0, "response": created}
    example = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
    cached = {"Cache-Control": headers.PRIVATE_OR_NOT_STORED, "ETag": headers.ETAG_OF_JSON}
    return polled | {
        "headers": polled["headers"] | cached,
        # Without a schema: OpenAPI 3.1 has none for what comes in pieces.
        "content": polled["content"] | {MEDIA_TYPE: {"example": example}},
    }
