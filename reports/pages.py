"""The pages: server-rendered views and the polled fragment. They work with scripts and without."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec
from uuid import uuid4

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.db import InterfaceError, OperationalError
from django.db.models import Subquery
from django.db.models.functions import Left
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.http.response import HttpResponseRedirectBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect, retarget

from budgets.days import today
from reports import acceptance, digests, serializers, transitions
from reports.errors import (
    InvalidRequest,
    JobActive,
    JobFinished,
    KeyInvalid,
    KeyMissing,
    KeyReused,
    NotFound,
    Refusal,
)
from reports.models import ReportJob, Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django.contrib.auth.models import User
    from django_htmx.middleware import HtmxDetails

    from reports.acceptance import Accepted
    from reports.models import JobQuerySet

# Scripts and styles are files of our own: a text that slipped through as HTML would run nothing.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# Faults that the rehearsal provider has on offer; its own room is not for the web process.
REHEARSALS = ("503", "429", "hang", "drip", "reset", "junk", "empty", "huge", "slow:5")
PAGE_SIZE = 20
EXCERPT = 160
DATABASE_RETRY_S = 5
# (age in seconds, seconds between polls): who has waited for minutes does not mind a few seconds.
POLL_STEPS = ((10, 1), (60, 2), (300, 5))
SLOWEST_POLL_S = 10


P = ParamSpec("P")


class HtmxRequest(HttpRequest):
    """A request as the middleware leaves it."""

    htmx: HtmxDetails


class PageRequest(HttpRequest):
    """A request of somebody who has signed in."""

    user: User


class SeeOther(HttpResponseRedirectBase):
    """303: what was sent is done; reading it is a request of its own, which a reload may repeat."""

    status_code = 303


def private(view: Callable[P, HttpResponseBase]) -> Callable[P, HttpResponseBase]:
    """Let nobody keep a copy, so that Back shows the present state; let no inline script run."""

    @wraps(view)
    def answer(*args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        response = view(*args, **kwargs)
        patch_cache_control(response, private=True, no_store=True)
        patch_vary_headers(response, ["Cookie", "HX-Request"])
        response.headers["Content-Security-Policy"] = POLICY
        return response

    return answer


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def index(request: PageRequest) -> HttpResponseBase:
    """The form, the day's budget and the user's own reports; a POST accepts a prompt as work."""
    if request.method == "POST":
        return _submit(request)
    return _form(request, prompt=_prompt_again(request), key=str(uuid4()))


@private
@login_required
@require_safe
def job(request: PageRequest, job_id: UUID) -> HttpResponseBase:
    """One report."""
    return TemplateResponse(request, "reports/job.html", _screen(_access(request.user.pk, job_id)))


@private
@require_safe
def fragment(request: HtmxRequest, job_id: UUID) -> HttpResponseBase:
    """The part of a report's page that changes: 204 while it is as the page has it (`?seen=`)."""
    if not request.user.is_authenticated:
        return _to_login(request, job_id)
    screen = _screen(_access(request.user.pk, job_id))
    if not screen["every_s"] or request.GET.get("seen") != screen["seen"]:
        return TemplateResponse(request, "reports/_job.html", screen)
    if request.GET.get("every") == str(screen["every_s"]):
        return HttpResponse(status=204)
    # Only the pace has changed: swap the poller alone, so that focus and selection stay.
    return retarget(render(request, "reports/_poll.html", screen), "#poll")


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def cancel(request: PageRequest, job_id: UUID) -> HttpResponseBase:
    """Ask, then cancel."""
    return _ask_then(transitions.cancel, request, job_id, template="reports/cancel.html")


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def erase(request: PageRequest, job_id: UUID) -> HttpResponseBase:
    """Ask, then erase the texts."""
    return _ask_then(transitions.erase, request, job_id, template="reports/erase.html")


def broken(request: HttpRequest) -> HttpResponse:  # noqa: ARG001  # Django fixes the signature
    """What no view expected: 503 when the database is away, 500 for a fault of ours."""
    if not isinstance(sys.exception(), OperationalError | InterfaceError):
        return HttpResponse(render_to_string("500.html"), status=500)
    page = HttpResponse(render_to_string("503.html"), status=503)
    page.headers["Retry-After"] = str(DATABASE_RETRY_S)
    return page


def _submit(request: PageRequest) -> HttpResponseBase:
    # Browsers send every line end as CR LF and count it as one character, and so do we.
    prompt = request.POST.get("prompt", "").replace("\r\n", "\n")
    key = request.POST.get("key", "")
    try:
        accepted = _accept(request.user.pk, key=key, prompt=prompt)
    except (KeyMissing, KeyInvalid) as refusal:
        return _form(request, prompt=prompt, key=str(uuid4()), refusal=refusal)
    except Refusal as refusal:
        return _form(request, prompt=prompt, key=key, refusal=refusal)
    return SeeOther(reverse("job", args=[accepted.job_id]))


def _accept(user_id: int, *, key: str, prompt: str) -> Accepted:
    key = serializers.parse_key(key)
    prompt = serializers.validate_prompt(prompt)
    try:
        return acceptance.accept(user_id, key=key, prompt=prompt)
    except KeyReused:
        # Back, then another prompt in a form that was sent before: a new intent. Its key follows
        # from both, so a double click still gives one job; hashed, since a key outlives erasure.
        return acceptance.accept(user_id, key=digests.of(f"{key}\n{prompt}"), prompt=prompt)


def _form(
    request: PageRequest, *, prompt: str, key: str, refusal: Refusal | None = None
) -> HttpResponseBase:
    context = {
        "prompt": prompt,
        "rehearsals": REHEARSALS if settings.DEBUG else (),
        "key": key,
        "problem": _in_words(refusal),
        "longest_prompt": serializers.LONGEST_PROMPT,
        "model": settings.INFERENCE_MODEL,
        "output_tokens": settings.INFERENCE_MAX_OUTPUT_TOKENS,
        "budget": today(request.user.pk),
        **_history(request),
    }
    headers = refusal.headers if refusal else None
    status = refusal.status if refusal else 200
    return TemplateResponse(request, "reports/index.html", context, status=status, headers=headers)


def _in_words(refusal: Refusal | None) -> str:
    match refusal:
        case None:
            return ""
        case KeyMissing() | KeyInvalid():
            return "Nothing was sent, since the form was not complete. It is now: send it again."
        case InvalidRequest(members={"errors": {"prompt": [str(text)]}}):
            return text
        case _:
            return refusal.text


def _prompt_again(request: PageRequest) -> str:
    """The prompt of the report that `?again=` names, or one that asks for a fault in DEBUG."""
    rehearsal = request.GET.get("rehearse", "")
    if settings.DEBUG and rehearsal in REHEARSALS:
        return f"[[rehearse:{rehearsal}]] What happens to a report when this goes wrong?"
    try:
        return ReportJob.objects.access(request.user.pk, request.GET.get("again", "")).prompt
    except NotFound:
        return ""


def _history(request: PageRequest) -> dict[str, object]:
    """One page of the user's reports, newest first; `?status=` filters, `?before=` turns pages."""
    rows = ReportJob.objects.owned_by(request.user.pk)
    status = request.GET.get("status", "")
    if status in Status.values:
        rows = rows.filter(status=status)
    before = request.GET.get("before", "")
    if before:
        rows = _older_than(_access(request.user.pk, before), rows)
    rows = rows.order_by("-created_at", "-pk").annotate(excerpt=Left("prompt", EXCERPT))
    page = list(rows.defer("prompt", "result_text")[: PAGE_SIZE + 1])
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


def _access(user_id: int, job_id: UUID | str) -> ReportJob:
    try:
        return ReportJob.objects.access(user_id, str(job_id))
    except NotFound:
        raise Http404 from None


def _ask_then(
    act: Callable[[ReportJob], bool], request: PageRequest, job_id: UUID, *, template: str
) -> HttpResponseBase:
    report = _access(request.user.pk, job_id)
    if request.method != "POST":
        return TemplateResponse(request, template, {"job": report})
    try:
        act(report)
    except (JobActive, JobFinished) as refusal:
        messages.info(request, refusal.text)
    return SeeOther(reverse("job", args=[job_id]))


def _screen(report: ReportJob) -> dict[str, object]:
    """What the page and the fragment show of a report, and which of its states that is."""
    return {
        "job": report,
        "model": settings.INFERENCE_MODEL,
        "seen": f"{report.updated_at.timestamp():.6f}-{report.jobs_ahead}",
        "every_s": 0 if report.is_terminal else _poll_every_s(report),
    }


def _poll_every_s(report: ReportJob) -> int:
    age_s = (timezone.now() - report.created_at).total_seconds()
    return next((every_s for limit_s, every_s in POLL_STEPS if age_s < limit_s), SLOWEST_POLL_S)


def _to_login(request: HtmxRequest, job_id: UUID) -> HttpResponseBase:
    """A poll after the session moves the whole page; signing in leads back to the report."""
    login = redirect_to_login(reverse("job", args=[job_id]))
    return HttpResponseClientRedirect(login.url) if request.htmx else login
