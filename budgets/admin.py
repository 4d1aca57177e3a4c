"""Operators set caps here and look at what is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin

from budgets.models import InferenceBudget

if TYPE_CHECKING:
    from django.http import HttpRequest

    BaseForm = forms.ModelForm[InferenceBudget]
    BaseAdmin = admin.ModelAdmin[InferenceBudget]
else:  # generic for the type checker only
    BaseForm = forms.ModelForm
    BaseAdmin = admin.ModelAdmin

LARGEST_CAP = 2**62


class BudgetForm(BaseForm):
    """The cap, with its bounds told as a person would."""

    daily_tokens = forms.IntegerField(
        min_value=0, max_value=LARGEST_CAP, help_text="Tokens a UTC day."
    )

    class Meta:
        model = InferenceBudget
        fields = ("user", "daily_tokens")


@admin.register(InferenceBudget)
class InferenceBudgetAdmin(BaseAdmin):
    """A row appears with a user's first job; add one before to give somebody another cap."""

    form = BudgetForm
    list_display = ("user", "daily_tokens", "spent_tokens", "day_utc", "active_jobs")
    list_select_related = ("user",)
    list_per_page = 100
    ordering = ("-pk",)
    search_fields = ("=user__username",)
    search_help_text = "A whole user name."
    raw_id_fields = ("user",)
    show_full_result_count = False
    fields = ("user", "daily_tokens", "spent_tokens", "day_utc", "active_jobs")
    readonly_fields = ("spent_tokens", "day_utc", "active_jobs")

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
        """Write the cap alone: jobs move the other columns while an operator looks at the form."""
        obj.save(update_fields=["daily_tokens"] if change else None, force_insert=not change)
