"""Many threads at once, each with a database connection of its own."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, TypeVar

from django.db import connection, connections

from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Given = TypeVar("Given")
Result = TypeVar("Result")
THREADS = 20


def together(
    work: Callable[[Given], Result], items: Iterable[Given], *, threads: int = THREADS
) -> list[Result | Exception]:
    """Work on all items, `threads` at a time, the first of them at the same moment.

    Returns results and exceptions in the order of the items.
    """
    given = list(items)
    start = Barrier(min(threads, len(given)))

    def one(numbered: tuple[int, Given]) -> Result | Exception:
        number, item = numbered
        try:
            if number < start.parties:
                start.wait(10)
            return work(item)
        except Exception as error:  # noqa: BLE001  # the caller compares exceptions, too
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, enumerate(given)))


def begin(pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Future[Result]:
    """Run something on a connection of its own while the test goes on."""

    def one() -> Result:
        try:
            return work()
        finally:
            connections.close_all()

    return pool.submit(one)


def until_blocked(how_many: int) -> None:
    """Wait until PostgreSQL says that so many connections of this database wait for a lock."""
    until(_blocked, lambda seen: seen == how_many)


def _blocked() -> int:
    with connection.cursor() as cursor:
        # Within a transaction PostgreSQL would show the same picture again and again.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])
