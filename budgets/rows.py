"""The conditional UPDATE that returns the rows it moved, and the database's own calendar."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import connection, connections, models, transaction
from django.db.models import Expression, F, Func, Subquery, Value, functions
from django.db.models.functions import Cast
from django.db.models.sql import UpdateQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from django.db.models import QuerySet

Row = TypeVar("Row", bound=models.Model)


class UtcToday(Func):
    """Today's UTC date by the database's clock, which is the only clock that decides."""

    template = "DATE('now')"
    output_field = models.DateField()

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """The same instant that `Now()` gives within one statement."""
        return self.as_sql(
            compiler,
            connection,
            template="(STATEMENT_TIMESTAMP() AT TIME ZONE 'UTC')::date",
            **extra,
        )


class Now(functions.Now):
    """The database's clock. SQLite keeps instants as text: with as many digits as Python writes.

    Django's own writes three there and compares with six, so that an instant is not its own equal.
    """

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """Milliseconds, filled up to microseconds."""
        template = "STRFTIME('%%%%Y-%%%%m-%%%%d %%%%H:%%%%M:%%%%f000', 'NOW')"
        return self.as_sql(compiler, connection, template=template, **extra)


class CountUpTo(Subquery):
    """How many rows a (sliced) subquery has."""

    template = "(SELECT COUNT(*) FROM (%(subquery)s) AS counted)"
    output_field = models.IntegerField()


class Entry(Func):
    """A line of a log in JSON: the instant by the database's clock, a word and a detail."""

    output_field = models.JSONField()

    def __init__(self, what: str, detail: str | Expression) -> None:
        texts = (Value(text) if isinstance(text, str) else text for text in (what, detail))
        super().__init__(*(Cast(text, models.TextField()) for text in texts))

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """A list of one line."""
        at = "TO_CHAR(STATEMENT_TIMESTAMP() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MSZ')"
        template = f"JSONB_BUILD_ARRAY(JSONB_BUILD_ARRAY({at}, %(expressions)s))"
        return self.as_sql(compiler, connection, template=template, **extra)

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """The line."""
        at = "STRFTIME('%%%%Y-%%%%m-%%%%dT%%%%H:%%%%M:%%%%fZ', 'NOW')"
        template = f"JSON_ARRAY({at}, %(expressions)s)"
        return self.as_sql(compiler, connection, template=template, **extra)


class Noted(Func):
    """The log in a JSON column with one line more, so that it costs no statement of its own."""

    output_field = models.JSONField()

    def __init__(self, column: str, what: str, detail: str | Expression = "") -> None:
        super().__init__(F(column), Entry(what, detail))

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """Two lists joined."""
        return self.as_sql(
            compiler, connection, template="%(expressions)s", arg_joiner=" || ", **extra
        )

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, Any]:
        """A list with a line behind its last."""
        template = "JSON_INSERT(%(expressions)s)"
        return self.as_sql(
            compiler, connection, template=template, arg_joiner=", '$[#]', ", **extra
        )


class ByKey(Expression):
    """A text for each row, by its primary key. Building a `Case` of so many takes far longer."""

    output_field = models.CharField()

    def __init__(self, key: models.Field[Any, Any], texts: Mapping[Any, str]) -> None:
        super().__init__()
        self.key, self.texts = key, texts

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        """For one UPDATE, whose table needs no alias."""
        words: list[Any] = []
        for key, text in self.texts.items():
            words += [self.key.get_db_prep_value(key, connection), text]
        column = connection.ops.quote_name(self.key.column)
        return f"CASE {column} {'WHEN %s THEN %s ' * len(self.texts)}END", words


def database_now() -> datetime:
    """The present instant by the database's clock, for what SQL cannot work out. One statement."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT STATEMENT_TIMESTAMP()")
            now: datetime = cursor.fetchone()[0]
            return now
        cursor.execute("SELECT STRFTIME('%Y-%m-%dT%H:%M:%fZ', 'NOW')")
        return datetime.fromisoformat(cursor.fetchone()[0])


@contextmanager
def statements_within(limit_ms: int) -> Iterator[None]:
    """Let PostgreSQL break off what takes longer: OperationalError. SQLite knows no such limit.

    For reads of operators: a page that somebody looks at must not be what holds the database up.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                limit = str(limit_ms)
                cursor.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
        yield


def update_returning(rows: QuerySet[Row], **values: object) -> list[Row]:
    """UPDATE the rows that match and return them as they are afterwards; none matched: [].

    One statement. Django's `update` builds the same one and gives only the count.
    """
    query = rows.query.chain(UpdateQuery)
    query.add_update_values(values)  # type: ignore[attr-defined]
    compiler = query.get_compiler(rows.db)
    sql, params = compiler.as_sql()
    columns = ", ".join(
        connections[rows.db].ops.quote_name(str(field.column))
        for field in rows.model._meta.concrete_fields
    )
    return list(rows.model._base_manager.raw(f"{sql} RETURNING {columns}", params).using(rows.db))  # noqa: SLF001
