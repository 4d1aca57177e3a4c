"""Pages of a list that may be long: how many rows there are in all stays unknown."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.core.paginator import Paginator

if TYPE_CHECKING:
    from django.db.models import QuerySet

    BasePaginator = Paginator[Any]
else:  # generic for the type checker only
    BasePaginator = Paginator

# A full count of a large table takes seconds, and nobody turns to its last page.
COUNTED = 2000


class BoundedPaginator(BasePaginator):
    """Pages of the first rows, in the order of the list."""

    limit = COUNTED
    object_list: QuerySet[Any]

    @cached_property
    def count(self) -> int:
        """How many rows there are, up to the limit; read by the index that serves the page."""
        return self.object_list.values("pk")[: self.limit].count()
