"""Operators look at jobs here; history is never edited, and each look at texts is on record."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.utils.html import format_html, format_html_join

from budgets import asking
from budgets.asking import HistoryAdmin, operator
from reports import operating, timeline
from reports.finding import CodeFilter, DayFilter, KnownChoices, search
from reports.models import ReportJob

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from django.http import HttpRequest, HttpResponse
    from django.utils.safestring import SafeString

    from reports.operating import Act

TEXTS = ("prompt", "result_text", "metadata", "openai_request")
# Filters of the list. Any other look-up could guess at a prompt, or read the whole table.
LOOKUPS = frozenset({"status__exact", "error_code__exact", DayFilter.parameter_name})


@admin.register(ReportJob)
class ReportJobAdmin(HistoryAdmin):
    """Jobs, newest first: ids carry the time of birth. They are moved by `transitions` alone."""

    list_display = (
        "id",
        "owner",
        "state",
        "error_code",
        "http_status",
        "token_estimate",
        "created_at",
        "finished_at",
    )
    list_filter = (("status", KnownChoices), ("error_code", CodeFilter), DayFilter)
    # Users are fetched for the rows of a page, by one statement of their own, and never joined.
    list_select_related = ()
    search_fields = ("pk",)
    search_help_text = "A whole job id, user name or idempotency key."
    actions = ("cancel", "fail_as_lost", "publish_again", "erase")
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
        ("expires_at", "again_of"),
        ("is_unclear", "erased_at"),
        "course",
    )
    readonly_fields = (
        *("owner", "course", "texts"),
        *("prompt_as_sent", "text_as_answered", "metadata_as_sent"),
    )

    @admin.action(description="Cancel…", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> HttpResponse | None:
        """End jobs early: free while they wait, else with their reservation kept."""
        return self._ask_then_act(request, queryset, operating.CANCEL)

    @admin.action(description="Fail as worker_lost, whatever the lease says…", permissions=["act"])
    def fail_as_lost(
        self, request: HttpRequest, queryset: QuerySet[ReportJob]
    ) -> HttpResponse | None:
        """End running jobs whose worker is known to be gone, before their lease runs out."""
        return self._ask_then_act(request, queryset, operating.FAIL_AS_LOST)

    @admin.action(description="Publish again", permissions=["act"])
    def publish_again(
        self, request: HttpRequest, queryset: QuerySet[ReportJob]
    ) -> HttpResponse | None:
        """Hand queued jobs to the broker now, before the sweep takes their messages for lost."""
        return self._ask_then_act(request, queryset, operating.PUBLISH_AGAIN)

    @admin.action(description="Erase prompts and texts…", permissions=["erase"])
    def erase(self, request: HttpRequest, queryset: QuerySet[ReportJob]) -> HttpResponse | None:
        """Erase the texts of jobs that have ended."""
        return self._ask_then_act(request, queryset.defer(None), operating.ERASE)

    def _ask_then_act(
        self, request: HttpRequest, queryset: QuerySet[ReportJob], act: Act
    ) -> HttpResponse | None:
        is_confirmed = "confirmed" in request.POST
        if is_confirmed:  # of the jobs that were shown, also where a filter finds them no more
            chosen = request.POST.getlist(ACTION_CHECKBOX_NAME)
            queryset = self.model.objects.filter(pk__in=chosen).order_by("-pk")
        jobs = list(queryset[: asking.MOST_ROWS + 1])
        if act.warning and not is_confirmed:
            many = f"{len(jobs)} job{'s' * (len(jobs) != 1)}"
            title = f"{act.order} {many}" if len(jobs) <= asking.MOST_ROWS else act.order
            return self.ask(request, jobs, action=act.name, title=title, warning=act.warning)
        words = operating.carry_out(act, jobs, operator=operator(request))
        level = messages.WARNING if words.startswith("0 ") else messages.SUCCESS
        self.message_user(request, words, level)
        return None

    def described(self, job: ReportJob) -> str:
        """Which job, in which state, of whom."""
        return f"{job.pk}, {job.status}, of {job.user.get_username()}"

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """The page of one job. Where it shows the texts, the look is on record first."""
        job: ReportJob = kwargs["obj"]
        if self._shows_texts(request, job):
            words = "looked at, with its texts"
            operating.put_on_record(job, operator=operator(request), words=words)
        context["may_act"] = self.has_act_permission(request)
        context["may_erase"] = self.has_erase_permission(request)
        return super().render_change_form(request, context, *args, **kwargs)

    def get_fields(self, request: HttpRequest, obj: ReportJob | None = None) -> Any:
        """The facts, and the texts or why they are not there."""
        if obj is not None and self._shows_texts(request, obj):
            return (*self.fields, "prompt_as_sent", "text_as_answered", "metadata_as_sent")
        return (*self.fields, "texts")

    def _shows_texts(self, request: HttpRequest, job: ReportJob) -> bool:
        return not job.is_erased and request.user.has_perm("reports.view_text")

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Whether an operator may move jobs: the permission to change them, though no form does."""
        return _may(request, "change")

    def has_erase_permission(self, request: HttpRequest) -> bool:
        """Whether an operator may erase texts: the permission to delete, though no row ever is."""
        return _may(request, "delete")

    @admin.display(description="user")
    def owner(self, job: ReportJob) -> str:
        """The name of the job's user."""
        return job.user.get_username()

    @admin.display(description="status")
    def state(self, job: ReportJob) -> str:
        """The status, and whether the texts are gone."""
        return f"{job.get_status_display()}{', erased' if job.is_erased else ''}"

    @admin.display(description="timeline")
    def course(self, job: ReportJob) -> SafeString:
        """What became of it, step by step."""
        lines = (
            (f"{step.at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3], step.what, step.detail)
            for step in timeline.steps(job)
        )
        steps = format_html_join("", "<li>{} {} <span>{}</span></li>", lines)
        return format_html('<ol class="course">{}</ol>', steps)

    @admin.display(description="prompt")
    def prompt_as_sent(self, job: ReportJob) -> SafeString:
        """The prompt, or the messages that were asked, to the letter."""
        asked = job.conversation
        text = job.prompt if asked is None else asked.recital
        return format_html('<pre class="job-text" dir="auto">{}</pre>', text)

    @admin.display(description="text")
    def text_as_answered(self, job: ReportJob) -> str:
        """The text, to the letter; none: a dash."""
        if not job.result_text:
            return self.get_empty_value_display()
        return format_html('<pre class="job-text" dir="auto">{}</pre>', job.result_text)

    @admin.display(description="metadata")
    def metadata_as_sent(self, job: ReportJob) -> SafeString:
        """The labels that its client gave it."""
        pairs = format_html_join("\n", "{}: {}", sorted(job.metadata.items()))
        return format_html('<pre class="job-text" dir="auto">{}</pre>', pairs)

    @admin.display(description="prompt and text")
    def texts(self, job: ReportJob) -> str:
        """Why they are not shown."""
        if job.is_erased:
            return "Erased for good. A keyed hash of the prompt stays, so that its key collides."
        return "Hidden. To see them takes a permission of its own, and each look is on record."

    def get_queryset(self, request: HttpRequest) -> QuerySet[ReportJob]:
        """Jobs without their texts, which are long and nobody's business in a list."""
        rows = super().get_queryset(request).defer(*TEXTS, "prompt_digest")
        return rows.prefetch_related("user")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[ReportJob], search_term: str
    ) -> tuple[QuerySet[ReportJob], bool]:
        """The job, the user's jobs or the key's jobs; without a join."""
        term = search_term.strip()
        return (search(queryset, term) if term else queryset), False

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Whether the address may filter by this."""
        return lookup in LOOKUPS


def _may(request: HttpRequest, what: str) -> bool:
    user = request.user
    return user.is_active and user.is_staff and user.has_perm(f"reports.{what}_reportjob")
