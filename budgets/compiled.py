"""Statements that the ORM writes once and that are sent many times with other values.

Writing SQL is most of what a short statement costs a web process: the ORM walks its expressions
anew each time. What may differ is marked by `Given`, and the text is kept for the process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection, models
from django.db.models import Expression
from django.db.models.sql import InsertQuery, UpdateQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from django.db.backends.utils import CursorWrapper
    from django.db.models import QuerySet

NAMED = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value in a statement; `field` says how the value is stored, if in any way."""

    name: str
    field: models.Field[Any, Any] | None = None


class Given(Expression):
    """A value that is only known when the statement is sent."""

    def __init__(self, name: str, output_field: models.Field[Any, Any]) -> None:
        super().__init__(output_field=output_field)
        self.name = name

    def as_sql(self, _compiler: Any, _connection: Any) -> tuple[str, Any]:
        """A mark, and a slot in the place of its value."""
        return "%s", [Slot(self.name, self.output_field)]


def given(model: type[models.Model], name: str) -> Given:
    """A value that is stored as this field stores it."""
    field: Any = model._meta.get_field(name)
    return Given(name, field)


@dataclass(frozen=True, slots=True)
class Text:
    """SQL, with values and slots in the order of its marks."""

    sql: str
    params: tuple[Any, ...]

    @classmethod
    def of(cls, sql: str) -> Text:
        """SQL by hand, with marks of the form %(name)s."""
        names = NAMED.findall(sql)
        return cls(NAMED.sub("%s", sql), tuple(Slot(name) for name in names))

    def __add__(self, other: Text | str) -> Text:
        if isinstance(other, str):
            return Text(self.sql + other, self.params)
        return Text(self.sql + other.sql, self.params + other.params)


class Statement:
    """A statement, written when it is first sent, and again when a setting in it has changed."""

    def __init__(
        self, write: Callable[[], Text], *, of: Sequence[str] = (), is_secret: bool = False
    ) -> None:
        """`write` makes the text; `of` names the settings that it reads.

        `is_secret`: its values reach PostgreSQL apart from the text, which a server writes into
        its log where a statement fails.
        """
        self._write, self._settings, self._is_secret = write, of, is_secret
        self._written: dict[tuple[Any, ...], Text] = {}

    def send(self, cursor: CursorWrapper, values: Mapping[str, Any]) -> None:
        """Execute it with these values in its slots."""
        key = (connection.vendor, *(getattr(settings, name) for name in self._settings))
        text = self._written.get(key)
        if text is None:
            text = self._written[key] = self._write()
        cursor.execute(text.sql, [_filled(param, values) for param in text.params])

    def execute(self, **values: Any) -> int:
        """How many rows it wrote."""
        with connection.cursor() as cursor:
            self.send(cursor, values)
            return int(cursor.rowcount)

    def first(self, **values: Any) -> tuple[Any, ...] | None:
        """The first row that it gives, as the database's client reads it; None: none."""
        with self._cursor() as cursor:
            self.send(cursor, values)
            row: tuple[Any, ...] | None = cursor.fetchone()
            return row

    def _cursor(self) -> CursorWrapper:
        if not self._is_secret or connection.vendor != "postgresql":
            return connection.cursor()
        from django.db.backends.postgresql.base import (  # noqa: PLC0415  # not where SQLite is
            ServerBindingCursor,
        )

        connection.ensure_connection()
        wrap = connection.make_debug_cursor if connection.queries_logged else connection.make_cursor
        bare: Any = ServerBindingCursor(connection.connection)  # type: ignore[call-arg]  # psycopg's
        return wrap(bare)


class Reading(Statement):
    """A statement whose rows are given as the ORM gives them, one value for each column."""

    def __init__(
        self, write: Callable[[], tuple[Text, Sequence[Any]]], *, of: Sequence[str] = ()
    ) -> None:
        """`write` also gives the expressions of the columns, which know how to be read."""
        super().__init__(self._write_with_columns, of=of)
        self._write_both = write
        self._converters: dict[str, list[tuple[int, Any, Sequence[Callable[..., Any]]]]] = {}

    def _write_with_columns(self) -> Text:
        text, columns = self._write_both()
        self._converters[connection.vendor] = [
            (place, column, found)
            for place, column in enumerate(columns)
            if (
                found := connection.ops.get_db_converters(column)
                + column.get_db_converters(connection)
            )
        ]
        return text

    def first(self, **values: Any) -> tuple[Any, ...] | None:
        """The first row; None: there is none."""
        row = super().first(**values)
        if row is None:
            return None
        read = list(row)
        for place, column, converters in self._converters[connection.vendor]:
            for convert in converters:
                read[place] = convert(read[place], column, connection)
        return tuple(read)


def select(rows: QuerySet[Any, Any]) -> tuple[Text, Sequence[Any]]:
    """The SELECT of a queryset of values, for `Reading`."""
    compiler = rows.query.get_compiler(connection=connection)
    sql, params = compiler.as_sql()
    return Text(sql, tuple(params)), [column for column, *_ in compiler.select]


def returning(
    text: Text, model: type[models.Model], names: Sequence[str]
) -> tuple[Text, Sequence[Any]]:
    """A statement that gives these columns of the row it wrote, for `Reading`."""
    fields: list[Any] = [model._meta.get_field(name) for name in names]
    quoted = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    columns = [field.get_col(model._meta.db_table) for field in fields]
    return text + f" RETURNING {quoted}", columns


def update(rows: QuerySet[Any], **values: object) -> Text:
    """The UPDATE that `rows.update(**values)` sends."""
    query = rows.query.chain(UpdateQuery)
    query.add_update_values(values)  # type: ignore[attr-defined]
    sql, params = query.get_compiler(connection=connection).as_sql()
    return Text(sql, tuple(params))


def insert(row: models.Model) -> Text:
    """The INSERT of a new row, whose fields may hold `Given`, without any RETURNING."""
    query = InsertQuery(type(row))
    query.insert_values(row._meta.concrete_fields, [row])
    ((sql, params),) = query.get_compiler(connection=connection).as_sql()
    return Text(sql, tuple(params))


def _filled(param: Any, values: Mapping[str, Any]) -> Any:
    if not isinstance(param, Slot):
        return param
    value = values[param.name]
    if value is None or param.field is None:  # of JSON, None would else be its null and not SQL's
        return value
    return param.field.get_db_prep_value(value, connection)
