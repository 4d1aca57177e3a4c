"""A page of a short list, as OpenAI's clients turn them: `order`, `limit`, `after`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from reports.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 100
USUAL = 20
ORDERS = ("desc", "asc")  # the first where none is asked for
LIMIT = re.compile(r"[0-9]{1,3}")


def page_of(items: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """The list object for a query; `items` are the oldest first. Raises InvalidRequest."""
    order = query.get("order", ORDERS[0])
    if order not in ORDERS:
        raise InvalidRequest(order=f"The order is one of {', '.join(ORDERS)}.")
    limit = _limit(query.get("limit", str(USUAL)))
    ordered = items if order == "asc" else items[::-1]
    if "after" in query:
        places = [place for place, item in enumerate(ordered, 1) if item["id"] == query["after"]]
        if not places:
            raise InvalidRequest(after="There is no such item in this list.")
        ordered = ordered[places[0] :]
    page = ordered[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(ordered) > limit,
    }


def _limit(value: str) -> int:
    if LIMIT.fullmatch(value) and 1 <= int(value) <= MOST:
        return int(value)
    raise InvalidRequest(limit=f"The limit is a number from 1 to {MOST}.")
