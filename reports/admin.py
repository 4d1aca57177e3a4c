"""Operators look at jobs here; history is never edited, and texts are not shown."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.paginator import Paginator

from reports import transitions
from reports.errors import JobFinished
from reports.models import CANONICAL_UUID, ReportJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.db.models import QuerySet
    from django.http import HttpRequest

    BaseAdmin = admin.ModelAdmin[ReportJob]
    BasePaginator = Paginator[ReportJob]
else:  # generic for the type checker only
    BaseAdmin = admin.ModelAdmin
    BasePaginator = Paginator

# A full count of a large table takes seconds, and nobody turns to its last page.
COUNTED = 2000


class BoundedPaginator(BasePaginator):
    """Pages of the newest rows; how many there are in all stays unknown."""

    limit = COUNTED
    object_list: QuerySet[ReportJob]

    @cached_property
    def count(self) -> int:
        """How many rows there are, up to the limit."""
        return self.object_list.order_by()[: self.limit].count()


@admin.register(ReportJob)
class ReportJobAdmin(BaseAdmin):
    """Jobs, newest first."""

    list_display = (
        "id",
        "owner",
        "status",
        "error_code",
        "http_status",
        "token_estimate",
        "created_at",
        "finished_at",
    )
    list_filter = ("status", "error_code")
    list_per_page = 100
    # Users are fetched for the rows of a page, by one statement of their own, and never joined.
    list_select_related = ()
    # Ids carry the time of birth, so the primary key's index serves this order.
    ordering = ("-pk",)
    sortable_by = ()
    search_fields = ("pk",)
    search_help_text = "A whole job id, user name or idempotency key."
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = ("cancel", "fail_as_lost")
    fields = (
        ("id", "owner"),
        "idempotency_key",
        ("status", "error_code", "http_status"),
        "error_detail",
        ("finish_reason", "is_prompt_cut"),
        ("token_estimate", "settled_tokens", "day_utc"),
        ("prompt_tokens", "completion_tokens"),
        ("created_at", "started_at", "finished_at", "updated_at"),
        ("claim_id", "lease_expires_at"),
        ("attempts", "try_after"),
        ("publish_again_at", "republished"),
        "erased_at",
    )
    readonly_fields = ("owner",)

    @admin.action(description="Cancel", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> None:
        """End jobs early: free while they wait, else with their reservation kept."""
        moved = sum(_is_moved(transitions.cancel, job) for job in queryset)
        self.message_user(request, f"{moved} cancelled; the others had ended before.")

    @admin.action(description="Fail as worker_lost, whatever the lease says", permissions=["act"])
    def fail_as_lost(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> None:
        """End running jobs whose worker is known to be gone, before their lease runs out."""
        moved = sum(_is_moved(transitions.give_up, job) for job in queryset)
        self.message_user(request, f"{moved} failed as lost; the others were not running.")

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Whether an operator may end jobs: the permission to change them, though no form does."""
        user = request.user
        return user.is_active and user.is_staff and user.has_perm("reports.change_reportjob")

    @admin.display(description="user")
    def owner(self, job: ReportJob) -> str:
        """The name of the job's user."""
        return job.user.get_username()

    def get_queryset(self, request: HttpRequest) -> QuerySet[ReportJob]:
        """Jobs without their texts, which are long and nobody's business here."""
        rows = super().get_queryset(request).defer("prompt", "result_text", "prompt_digest")
        return rows.prefetch_related("user")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ReportJob], search_term: str
    ) -> tuple[QuerySet[ReportJob], bool]:
        """The job with this id, else this user's jobs, else those with this key; without a join."""
        term = search_term.strip()
        if not term:
            return queryset, False
        if CANONICAL_UUID.fullmatch(term) and queryset.filter(pk=term).exists():
            return queryset.filter(pk=term), False
        users = get_user_model().objects
        user_id = users.filter(username=term).values_list("pk", flat=True).first()
        if user_id is not None:
            return queryset.filter(user_id=user_id), False
        return queryset.filter(idempotency_key=term), False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: a job is born in `acceptance`."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: ReportJob | None = None) -> bool:
        """Never: a job is moved by `transitions`."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: ReportJob | None = None) -> bool:
        """Never: its key would be free again, and its tokens unaccounted for."""
        return False


def _is_moved(act: Callable[[ReportJob], bool], job: ReportJob) -> bool:
    try:
        return act(job)
    except JobFinished:
        return False
