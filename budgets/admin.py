"""Operators change here what users may spend, never without a reason, and see who did so before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.contrib.auth import get_user_model

from budgets import caps
from budgets.asking import AskingAdmin, HistoryAdmin, operator
from budgets.forms import AllowanceForm, CapForm, CapsForm, ReasonForm
from budgets.models import CapChange, GroupAllowance, InferenceBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.forms import Form
    from django.http import HttpRequest, HttpResponse


@admin.register(InferenceBudget)
class InferenceBudgetAdmin(AskingAdmin):
    """A row appears with a user's first job; add one before to give somebody another cap."""

    form = CapForm
    list_display = ("user", "allowance", "source", "spent_today", "reserved_today", "active_jobs")
    search_fields = ("pk",)
    search_help_text = "A whole user name."
    raw_id_fields = ("user",)
    actions = ("change_caps", "follow_default", "reset_today")
    facts = ("allowance", "source", "spent_today", "reserved_today", "forgiven_today")
    fields = ("user", "daily_tokens", "why", *facts, "active_jobs", "day_utc")
    readonly_fields = (*facts, "active_jobs", "day_utc")

    @admin.action(description="Change the caps…", permissions=["change"])
    def change_caps(
        self, request: HttpRequest, queryset: QuerySet[InferenceBudget]
    ) -> HttpResponse | None:
        """Give each a cap of their own: the same for all, or what they have now times a factor."""

        def change(row: InferenceBudget, form: Form) -> bool:
            cap = cast("CapsForm", form).cap_after(row.envelope().daily_tokens)
            why = form.cleaned_data["why"]
            return caps.set_cap(row.pk, daily_tokens=cap, by=operator(request), why=why)

        return self.ask_why_then_change(
            request,
            queryset,
            action="change_caps",
            title="Change the caps",
            form=CapsForm,
            change=change,
        )

    @admin.action(
        description="Back to the groups' allowance, or the default…", permissions=["change"]
    )
    def follow_default(
        self, request: HttpRequest, queryset: QuerySet[InferenceBudget]
    ) -> HttpResponse | None:
        """Take back what was set on each."""
        return self._ask_why(
            request, queryset, title="Back to the default", change=caps.follow_default
        )

    @admin.action(description="Reset today…", permissions=["change"])
    def reset_today(
        self, request: HttpRequest, queryset: QuerySet[InferenceBudget]
    ) -> HttpResponse | None:
        """Let the day of each begin again; what active jobs reserve stays spent."""
        return self._ask_why(request, queryset, title="Reset today", change=caps.reset_today)

    def _ask_why(
        self,
        request: HttpRequest,
        queryset: QuerySet[InferenceBudget],
        *,
        title: str,
        change: Callable[..., bool],
    ) -> HttpResponse | None:
        return self.ask_why_then_change(
            request,
            queryset,
            action=change.__name__,
            title=title,
            form=ReasonForm,
            change=lambda row, form: change(
                row.pk, by=operator(request), why=form.cleaned_data["why"]
            ),
        )

    @admin.display(description="tokens a day")
    def allowance(self, row: InferenceBudget) -> str:
        """What counts today."""
        return f"{row.envelope().daily_tokens:,}"

    @admin.display(description="from")
    def source(self, row: InferenceBudget) -> str:
        """Where that comes from."""
        if row.is_own:
            return "set on the user"
        return "default" if vars(row)["allowance"] is None else "group"

    @admin.display(description="spent today")
    def spent_today(self, row: InferenceBudget) -> str:
        """Settled and reserved in the present UTC day."""
        return f"{row.envelope().spent_tokens:,}"

    @admin.display(description="of it reserved")
    def reserved_today(self, row: InferenceBudget) -> str:
        """Reserved today by jobs that wait or run."""
        return _of_today(row, row.reserved_tokens)

    @admin.display(description="forgiven today")
    def forgiven_today(self, row: InferenceBudget) -> str:
        """Taken off today by resets."""
        return _of_today(row, row.forgiven_tokens)

    def described(self, row: InferenceBudget) -> str:
        """Whose it is, and what counts now."""
        return f"{row.user.get_username()}: {self.allowance(row)} tokens a day ({self.source(row)})"

    def get_queryset(self, request: HttpRequest) -> QuerySet[InferenceBudget]:
        """Rows with their users, and with what the users' groups allow."""
        return InferenceBudget.objects.with_allowance().select_related("user")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[InferenceBudget], search_term: str
    ) -> tuple[QuerySet[InferenceBudget], bool]:
        """The budget of the user of that name."""
        return _of_user(queryset, search_term.strip(), "pk"), False

    def get_fields(self, request: HttpRequest, obj: InferenceBudget | None = None) -> Any:
        """Of a row that is not there yet nothing is known."""
        if obj is None:
            return ("user", "daily_tokens", "why")
        is_editable = self.has_change_permission(request, obj)
        return [name for name in self.fields if is_editable or name != "why"]

    def get_readonly_fields(self, request: HttpRequest, obj: InferenceBudget | None = None) -> Any:
        """A budget never changes hands."""
        return self.readonly_fields if obj is None else ("user", *self.readonly_fields)

    def has_delete_permission(
        self, request: HttpRequest, obj: InferenceBudget | None = None
    ) -> bool:
        """Never: the day's count would start again while its jobs still run."""
        return False

    def save_model(
        self, request: HttpRequest, obj: InferenceBudget, form: Any, change: bool
    ) -> None:
        """Set the cap, with its entry in the audit trail."""
        found = form.cleaned_data
        caps.set_cap(
            obj.user_id,
            daily_tokens=found["daily_tokens"],
            by=operator(request),
            why=found["why"],
        )


@admin.register(GroupAllowance)
class GroupAllowanceAdmin(AskingAdmin):
    """What members of a group may spend a day; of several groups the largest counts."""

    form = AllowanceForm
    list_display = ("group", "daily_tokens")
    list_select_related = ("group",)
    actions = ("take_away",)
    fields = ("group", "daily_tokens", "why")

    @admin.action(description="Take the allowance away…", permissions=["take_away"])
    def take_away(
        self, request: HttpRequest, queryset: QuerySet[GroupAllowance]
    ) -> HttpResponse | None:
        """Leave the members to their other groups, or to the default."""
        return self.ask_why_then_change(
            request,
            queryset,
            action="take_away",
            title="Take the allowance away",
            form=ReasonForm,
            change=lambda row, form: caps.set_allowance(
                row.pk, daily_tokens=None, by=operator(request), why=form.cleaned_data["why"]
            ),
        )

    def described(self, row: GroupAllowance) -> str:
        """Whose it is, and how much."""
        return f"{row.group.name}: {row.daily_tokens:,} tokens a day"

    def has_take_away_permission(self, request: HttpRequest) -> bool:
        """Whether an operator may delete an allowance, which only the action does."""
        return request.user.has_perm("budgets.delete_groupallowance")

    def has_delete_permission(
        self, request: HttpRequest, obj: GroupAllowance | None = None
    ) -> bool:
        """Never: Django would ask for no reason."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: GroupAllowance | None = None) -> Any:
        """An allowance stays its group's."""
        return () if obj is None else ("group",)

    def get_fields(self, request: HttpRequest, obj: GroupAllowance | None = None) -> Any:
        """Who may only look gives no reason."""
        is_editable = obj is None or self.has_change_permission(request, obj)
        return self.fields if is_editable else ("group", "daily_tokens")

    def save_model(
        self, request: HttpRequest, obj: GroupAllowance, form: Any, change: bool
    ) -> None:
        """Set the allowance, with its entry in the audit trail."""
        found = form.cleaned_data
        caps.set_allowance(
            obj.group_id,
            daily_tokens=found["daily_tokens"],
            by=operator(request),
            why=found["why"],
        )


@admin.register(CapChange)
class CapChangeAdmin(HistoryAdmin):
    """The audit trail. It is read, and never written here."""

    list_display = ("at", "what", "name", "was", "became", "by_name", "why")
    list_filter = ("what",)
    search_fields = ("pk",)
    search_help_text = "A whole user name."

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[CapChange], search_term: str
    ) -> tuple[QuerySet[CapChange], bool]:
        """What was changed for the user of that name."""
        return _of_user(queryset, search_term.strip(), "user_id"), False


def _of_today(row: InferenceBudget, tokens: int) -> str:
    """A number of the row's own day, which may be over."""
    return f"{tokens if row.day_utc == vars(row)['today'] else 0:,}"


def _of_user(rows: QuerySet[Any], username: str, column: str) -> QuerySet[Any]:
    """The rows of the user of that name; an empty name is no search."""
    if not username:
        return rows
    user = get_user_model().objects.filter(username=username).only("pk").first()
    return rows.none() if user is None else rows.filter(**{column: user.pk})
