"""Operators revoke tokens and end locks; a token or its digest is nowhere to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axes.models import AccessAttempt
from django.contrib import admin

from access.models import Token

if TYPE_CHECKING:
    from django.http import HttpRequest

    BaseAdmin = admin.ModelAdmin[Any]
else:  # generic for the type checker only
    BaseAdmin = admin.ModelAdmin


class SeenAndDeleted(BaseAdmin):
    """Rows that operators look at and delete, and neither make nor change."""

    list_per_page = 100
    show_full_result_count = False
    ordering = ("-pk",)
    sortable_by = ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False


@admin.register(Token)
class TokenAdmin(SeenAndDeleted):
    """Tokens; deleting one revokes it. Owners make them on their page, or `issue_token` does."""

    list_display = ("words", "user", "token_key", "created", "last_used_at", "expiry")
    list_select_related = ("user",)
    search_fields = ("user__username__exact",)
    search_help_text = "A whole user name."
    fields = ("user", "name", "token_key", "created", "last_used_at", "expiry")
    readonly_fields = fields

    @admin.display(description="name")
    def words(self, token: Token) -> str:
        """Its name."""
        return token.name or "without a name"


@admin.register(AccessAttempt)
class AttemptAdmin(SeenAndDeleted):
    """Sign-ins that failed, by name and address; deleting them ends a lock."""

    list_display = ("username", "ip_address", "failures_since_start", "attempt_time")
    search_fields = ("username__exact",)
    search_help_text = "A whole user name."
    fields = (*list_display, "user_agent", "path_info")
    readonly_fields = fields
