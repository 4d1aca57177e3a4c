"""The front page: the form, the day's budget, and one's own reports."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import Subquery
from django.db.models.functions import Left
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from budgets.days import today
from reports import acceptance, digests, serializers
from reports.answers import PageRequest, SeeOther, access, private
from reports.errors import (
    BudgetExhausted,
    InvalidRequest,
    KeyInvalid,
    KeyMissing,
    KeyReused,
    NotFound,
    Refusal,
)
from reports.models import ReportJob, Status
from reports.wishes import NO_WISHES, Wishes

if TYPE_CHECKING:
    from django.http import HttpResponseBase

    from budgets.envelope import Envelope
    from reports.acceptance import Accepted
    from reports.models import JobQuerySet

# Faults that the rehearsal provider has on offer; its own room is not for the web process.
REHEARSALS = ("503", "429", "hang", "drip", "reset", "junk", "empty", "huge", "slow:5")
PAGE_SIZE = 20
EXCERPT = 160


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: PageRequest) -> HttpResponseBase:
    """The form, the day's budget and the user's own reports; a POST accepts a prompt as work."""
    if request.method == "POST":
        return _submit(request)
    return _form(request, prompt=_prompt_at_first(request), key=str(uuid4()))


def _submit(request: PageRequest) -> HttpResponseBase:
    # Browsers send every line end as CR LF and count it as one character, and so do we.
    prompt = request.POST.get("prompt", "").replace("\r\n", "\n")
    key = request.POST.get("key", "")
    try:
        accepted = _accept(request.user.pk, key=key, prompt=prompt, wishes=_wishes(request, prompt))
    except (KeyMissing, KeyInvalid) as refusal:
        return _form(request, prompt=prompt, key=str(uuid4()), refusal=refusal)
    except Refusal as refusal:
        return _form(request, prompt=prompt, key=key, refusal=refusal)
    return SeeOther(reverse("job", args=[accepted.job_id]))


def _accept(user_id: int, *, key: str, prompt: str, wishes: Wishes) -> Accepted:
    key = serializers.parse_key(key)
    prompt = serializers.validate_prompt(prompt)
    try:
        return acceptance.accept(user_id, key=key, prompt=prompt, wishes=wishes)
    except KeyReused:
        # Back, then another prompt in a form that was sent before: a new intent. Its key follows
        # from both, so a double click still gives one job; hashed, since a key outlives erasure.
        key = digests.of(f"{key}\n{prompt}")
        return acceptance.accept(user_id, key=key, prompt=prompt, wishes=wishes)


def _form(
    request: PageRequest, *, prompt: str, key: str, refusal: Refusal | None = None
) -> HttpResponseBase:
    budget = today(request.user.pk)
    context = {
        "prompt": prompt,
        "again": request.POST.get("again") or request.GET.get("again", ""),
        "rehearsals": REHEARSALS if settings.DEBUG else (),
        "key": key,
        "problem": _in_words(refusal, budget, prompt),
        "longest_prompt": serializers.LONGEST_PROMPT,
        "model": settings.INFERENCE_MODEL,
        "output_tokens": settings.INFERENCE_MAX_OUTPUT_TOKENS,
        "budget": budget,
        **_history(request),
    }
    headers = refusal.headers if refusal else None
    status = refusal.status if refusal else 200
    return TemplateResponse(request, "reports/index.html", context, status=status, headers=headers)


def _in_words(refusal: Refusal | None, budget: Envelope, prompt: str) -> str:
    match refusal:
        case None:
            return ""
        case KeyMissing() | KeyInvalid():
            return "Nothing was sent, since the form was not complete. It is now: send it again."
        case BudgetExhausted():
            tokens = acceptance.reservation(prompt)
            return (
                f"Nothing was sent: it would reserve {tokens} tokens, and "
                f"{budget.remaining_tokens} of today's {budget.daily_tokens} are left. The count "
                f"starts again at {budget.resets_at:%H:%M} UTC."
            )
        case InvalidRequest(members={"errors": {"prompt": [str(text)]}}):
            return text
        case _:
            return refusal.text


def _prompt_at_first(request: PageRequest) -> str:
    """The prompt of the report that `?again=` names, or one that asks for a fault in DEBUG."""
    rehearsal = request.GET.get("rehearse", "")
    if settings.DEBUG and rehearsal in REHEARSALS:
        return f"[[rehearse:{rehearsal}]] What happens to a report when this goes wrong?"
    report = _of_before(request.user.pk, request.GET.get("again", ""))
    return report.prompt if report else ""


def _wishes(request: PageRequest, prompt: str) -> Wishes:
    """Those of the report that is asked for again, as long as its prompt was not changed."""
    report = _of_before(request.user.pk, request.POST.get("again", ""))
    if report is None or not report.is_terminal or report.prompt != prompt:
        return NO_WISHES
    return Wishes.again(report)


def _of_before(user_id: int, job_id: str) -> ReportJob | None:
    try:
        return ReportJob.objects.access(user_id, job_id)
    except NotFound:
        return None


def _history(request: PageRequest) -> dict[str, object]:
    """One page of the user's reports, newest first; `?status=` filters, `?before=` turns pages."""
    rows = ReportJob.objects.owned_by(request.user.pk)
    status = request.GET.get("status", "")
    if status in Status.values:
        rows = rows.filter(status=status)
    else:
        status = ""
    before = request.GET.get("before", "")
    if before:
        rows = _older_than(access(request.user.pk, before), rows)
    rows = rows.order_by("-created_at", "-pk").annotate(excerpt=Left("prompt", EXCERPT))
    page = list(rows.defer("prompt", "result_text", "openai_request")[: PAGE_SIZE + 1])
    return {
        "jobs": page[:PAGE_SIZE],
        "status": status,
        "statuses": Status.choices,
        "before": before,
        "older": page[PAGE_SIZE - 1].pk if len(page) > PAGE_SIZE else None,
    }


def _older_than(edge: ReportJob, rows: JobQuerySet) -> JobQuerySet:
    # The database compares its own instants: Python's have more digits than SQLite keeps.
    instant = Subquery(ReportJob.objects.filter(pk=edge.pk).values("created_at"))
    return rows.filter(created_at__lte=instant).exclude(created_at=instant, pk__gte=edge.pk)
