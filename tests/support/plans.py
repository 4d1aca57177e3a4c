"""The plans by which PostgreSQL really ran the statements of a block, told by its auto_explain."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.errors import Diagnostic

# Each statement as it was sent and prepared, and what it touched: not what was expected of it.
SETTINGS = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "client_min_messages": "log",
    "log_min_messages": "panic",
}
READ_FOR_NOTHING = ("Rows Removed by Filter", "Rows Removed by Index Recheck")


@dataclass(frozen=True, slots=True)
class Plan:
    """What one statement took."""

    sql: str
    pages: int  # looks at a page, in memory or on the disk
    rows: int  # rows and entries of indexes that were read, those that did not fit included
    sorted_rows: int
    tables: frozenset[str]
    indexes: frozenset[str]
    read_whole: frozenset[str]  # tables

    @classmethod
    def of(cls, told: dict[str, Any]) -> Plan:
        """As auto_explain tells it."""
        nodes = [node for node in _and_below(told["Plan"]) if node["Actual Loops"]]
        whole = [node for node in nodes if node["Node Type"] == "Seq Scan"]
        sorts = [node for node in nodes if node["Node Type"].endswith("Sort")]
        return cls(
            sql=told["Query Text"],
            pages=nodes[0]["Shared Hit Blocks"] + nodes[0]["Shared Read Blocks"],
            rows=sum(_read_by(node) for node in nodes if node["Node Type"].endswith("Scan")),
            sorted_rows=sum(_count(node["Plans"][0], "Actual Rows") for node in sorts),
            tables=_named(nodes, "Relation Name"),
            indexes=_named(nodes, "Index Name"),
            read_whole=_named(whole, "Relation Name"),
        )


@contextmanager
def run_plans() -> Iterator[list[Plan]]:
    """The list fills with a plan for each statement that ended; one that raised has none.

    For tests whose transaction is rolled back, and the settings with it.
    """
    plans: list[Plan] = []

    def note(told: Diagnostic) -> None:
        words, _, plan = (told.message_primary or "").partition("plan:\n")
        if words.startswith("duration:") and plan:
            plans.append(Plan.of(json.loads(plan)))

    with connection.cursor() as cursor:
        cursor.execute("LOAD 'auto_explain'")
        for name, value in SETTINGS.items():
            cursor.execute(f"SET LOCAL {name} = '{value}'")
    told_by = connection.connection
    told_by.add_notice_handler(note)
    try:
        yield plans
    finally:
        told_by.remove_notice_handler(note)


def _and_below(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _and_below(below)


def _named(nodes: list[dict[str, Any]], key: str) -> frozenset[str]:
    return frozenset(node[key] for node in nodes if key in node)


def _read_by(scan: dict[str, Any]) -> int:
    return sum(_count(scan, name) for name in ("Actual Rows", *READ_FOR_NOTHING))


def _count(node: dict[str, Any], name: str) -> int:
    """PostgreSQL tells the average of a node's turns."""
    return round(float(node.get(name, 0)) * int(node["Actual Loops"]))
