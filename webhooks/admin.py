"""Operators see endpoints and deliveries, switch endpoints off and send messages again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.utils.html import format_html, format_html_join

from budgets.asking import MOST_ROWS, HistoryAdmin, operator
from webhooks import deliveries
from webhooks.models import Off, WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString


class ActingAdmin(HistoryAdmin):
    """Rows that nobody edits; the permission to change them is the one to act on them."""

    search_help_text = "A whole user name."
    search_fields = ("user__username__exact",)

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Whether an operator may act, though no form changes a row."""
        word = f"{self.opts.app_label}.change_{self.opts.model_name}"
        return request.user.is_active and request.user.is_staff and request.user.has_perm(word)

    def _done(self, request: HttpRequest, rows: list[Any], words: str) -> None:
        if rows:
            LogEntry.objects.log_actions(operator(request).pk, rows, CHANGE, f"{words}.")
        level = messages.SUCCESS if rows else messages.WARNING
        self.message_user(request, f"{len(rows)} {words.lower()}.", level)


@admin.register(WebhookEndpoint)
class EndpointAdmin(ActingAdmin):
    """Endpoints of all users, without their seeds."""

    list_display = ("id", "user", "url", "off", "failing_since", "created_at")
    list_select_related = ("user",)
    fields = (
        *("user", "url", "description", "on_success", "on_failure", "off"),
        *("listens_since", "failing_since", "old_seed_until", "created_at"),
    )
    readonly_fields = fields
    actions = ("switch_off",)

    @admin.action(description="Switch off", permissions=["act"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[WebhookEndpoint]) -> None:
        """Send nothing more there until the owner switches it on again."""
        rows = list(queryset.filter(off=Off.NOT)[:MOST_ROWS])
        WebhookEndpoint.objects.filter(pk__in=[row.pk for row in rows]).update(off=Off.OPERATOR)
        self._done(request, rows, "Switched off")


@admin.register(WebhookDelivery)
class DeliveryAdmin(ActingAdmin):
    """What became of messages, the newest first."""

    list_display = (
        *("id", "user", "event", "state", "attempts", "http_status", "detail"),
        *("next_try_at", "created_at"),
    )
    list_select_related = ("user", "endpoint")
    fields = (
        *("user", "endpoint", "job_id", "event", "webhook_id", "body", "state", "attempts"),
        *("next_try_at", "http_status", "detail", "course", "created_at", "finished_at"),
    )
    readonly_fields = fields
    actions = ("replay",)

    @admin.action(description="Send again", permissions=["act"])
    def replay(self, request: HttpRequest, queryset: QuerySet[WebhookDelivery]) -> None:
        """Send ended deliveries anew, to endpoints that are on."""
        chosen = queryset.filter(endpoint__off=Off.NOT)[:MOST_ROWS]
        self._done(request, [row for row in chosen if deliveries.replay(row)], "Sent again")

    @admin.display(description="attempts in order")
    def course(self, delivery: WebhookDelivery) -> SafeString:
        """When each was, and how it came out."""
        lines = format_html_join("", "<li>{} {} <span>{}</span></li>", delivery.history)
        return format_html('<ol class="course">{}</ol>', lines)
