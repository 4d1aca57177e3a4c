"""The statements that a block sends to the database, named by what they do."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connection
from django.test.utils import CaptureQueriesContext

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = re.compile(r'(?:INTO|FROM|UPDATE)\s+"?(\w+)"?')
WRITES = re.compile(r'(INSERT|(?<!DO )UPDATE)\s+(?:INTO\s+)?"?(\w+)"?')
INNER = re.compile(r"\([^()]*\)")
CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The list fills with the words of each statement: `BEGIN`, `INSERT reports_reportjob`, ..."""
    statements: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield statements
    statements += [_words(query["sql"] or "") for query in captured.captured_queries]


def _words(sql: str) -> str:
    verb = sql.split(maxsplit=1)[0].rstrip(";").upper()
    if verb in CONTROL:
        return verb
    if "set_config(" in sql:  # PostgreSQL's SET LOCAL, with a value
        return "SET"
    if verb == "WITH":  # several writes, or one that asks something first
        return " + ".join(f"{verb} {table}" for verb, table in WRITES.findall(sql))
    table = TABLE.search(_without_parentheses(sql))
    if table and table[1] == "subquery":  # Django's name for what it counts or sums from
        table = TABLE.search(sql)
    assert table is not None, sql
    return f"{verb} {table[1]}"


def _without_parentheses(sql: str) -> str:
    """The statement itself: what it asks on the way is no statement of its own."""
    inner = INNER.sub("", sql)
    return inner if inner == sql else _without_parentheses(inner)
