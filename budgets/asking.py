"""What the admin's lists share: they are never counted whole, and ask before they act on rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.models import CHANGE, LogEntry
from django.template.response import TemplateResponse

from budgets.paging import BoundedPaginator

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.contrib.auth.models import User
    from django.db.models import QuerySet
    from django.forms import Form
    from django.http import HttpRequest, HttpResponse

    BaseAdmin = admin.ModelAdmin[Any]
else:  # generic for the type checker only
    BaseAdmin = admin.ModelAdmin

# Of one action: what is chosen beyond it is told, and left for another.
MOST_ROWS = 500
SHOWN_ROWS = 20


class AskingAdmin(BaseAdmin):
    """A list that may be long, and actions that cannot be undone or need a reason."""

    list_per_page = 100
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    # In the order of the primary key, and of no column without an index.
    sortable_by = ()
    ordering = ("-pk",)

    def ask(
        self,
        request: HttpRequest,
        rows: list[Any],
        *,
        action: str,
        title: str,
        warning: str = "",
        form: Form | None = None,
    ) -> HttpResponse:
        """The page that asks, about the rows that it shows: `action` comes back `confirmed`."""
        asked = rows[:MOST_ROWS]
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "warning": warning,
            "form": form,
            "shown": [(row.pk, self.described(row)) for row in asked[:SHOWN_ROWS]],
            "more": len(asked[SHOWN_ROWS:]),
            "is_cut": len(rows) > MOST_ROWS,
            "ids": [row.pk for row in asked],
            "action": action,
            "checkbox": ACTION_CHECKBOX_NAME,
        }
        return TemplateResponse(request, "admin/ask.html", context)

    def described(self, row: Any) -> str:
        """A row in the words of the page that asks."""
        return str(row)

    def ask_why_then_change(
        self,
        request: HttpRequest,
        queryset: QuerySet[Any],
        *,
        action: str,
        title: str,
        form: type[Form],
        change: Callable[[Any, Form], bool],
    ) -> HttpResponse | None:
        """Ask; with an answer that fits, change each row, and say how many did and did not."""
        rows = list(queryset[: MOST_ROWS + 1])
        asked = form(request.POST if "confirmed" in request.POST else None)
        if not asked.is_valid():
            return self.ask(request, rows, action=action, title=title, form=asked)
        rows = rows[:MOST_ROWS]
        changed = [row for row in rows if change(row, asked)]
        why = f"{title}: {asked.cleaned_data['why']}"
        if changed:
            LogEntry.objects.log_actions(operator(request).pk, changed, CHANGE, why)
        same = len(rows) - len(changed)
        words = f"{len(changed)} changed" + (f"; {same} had nothing to change." if same else ".")
        self.message_user(request, words, messages.SUCCESS if changed else messages.WARNING)
        return None


class HistoryAdmin(AskingAdmin):
    """What has happened is read here, and never edited."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: rows are born where things happen."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: somebody would miss it."""
        return False


def operator(request: HttpRequest) -> User:
    """Who works in the admin, which lets nobody else in."""
    return cast("User", request.user)
