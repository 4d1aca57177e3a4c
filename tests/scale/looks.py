"""What may be read of a large table, however large it is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.plans import run_plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Set as AbstractSet

TABLE = "reports_reportjob"
LARGE = {TABLE, "budgets_inferencebudget", "auth_user", "access_token"}
KEY = "reports_reportjob_pkey"
UNIQUE = "reports_reportjob_user_id_idempotency_key_15f70489_uniq"
# A statement of the hot path: a few levels of each index, the row, and where there is room for it.
FEW_PAGES = 100
# After five runs psycopg has the server prepare a statement; after five more PostgreSQL weighs a
# plan that must fit all values, under which an index of few rows would be of no use.
UNTIL_PREPARED = 12


@contextmanager
def flat(
    *,
    pages: int = FEW_PAGES,
    rows: int = FEW_PAGES,
    by: AbstractSet[str] | None = None,
    among: AbstractSet[str] | None = None,
    whole: AbstractSet[str] = frozenset(),
) -> Iterator[None]:
    """Each statement of the block looks at so many pages and rows of large tables at most.

    It reads jobs `by` these indexes, or by some `among` these. Which of two good ones PostgreSQL
    takes may depend on its samples; where neither is named, any will do. `whole` may be read whole.
    """
    with run_plans() as plans:
        yield
    large = [plan for plan in plans if plan.tables & LARGE]
    for plan in large:
        assert not plan.read_whole & LARGE - whole, plan
        assert plan.pages <= pages, plan
        assert plan.rows <= rows, plan
        assert plan.sorted_rows <= rows, plan
    assert large  # a statement that raised has no plan
    found = {index for plan in large for index in plan.indexes if "reportjob" in index}
    assert by is None or found == by, large
    assert among is None or found <= among, large


def again_and_again(act: Callable[[int], None]) -> None:
    """Do it as often as it takes until its statements are prepared for all values."""
    for number in range(UNTIL_PREPARED):
        act(number)
