"""The pages of one report and the polled fragment. They work with scripts and without."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LogoutView, redirect_to_login
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe
from django_htmx.http import HttpResponseClientRedirect, retarget

from reports import timeline, transitions
from reports.answers import HtmxRequest, PageRequest, SeeOther, access, private
from reports.errors import JobActive, JobFinished
from reports.models import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from reports.models import ReportJob

DATABASE_RETRY_S = 5
# (age in seconds, seconds between polls): who has waited for minutes does not mind a few seconds.
POLL_STEPS = ((10, 1), (60, 2), (300, 5))
SLOWEST_POLL_S = 10


@private
@login_required
@require_safe
def job(request: PageRequest, job_id: UUID) -> HttpResponseBase:
    """One report."""
    return TemplateResponse(request, "reports/job.html", _screen(access(request.user.pk, job_id)))


@private
@require_safe
def fragment(request: HtmxRequest, job_id: UUID) -> HttpResponseBase:
    """The part of a report's page that changes: 204 while it is as the page has it (`?seen=`)."""
    if not request.user.is_authenticated:
        return _to_login(request, job_id)
    screen = _screen(access(request.user.pk, job_id))
    if not screen["every_s"] or request.GET.get("seen") != screen["seen"]:
        return TemplateResponse(request, "reports/_job.html", screen)
    if request.GET.get("every") == str(screen["every_s"]):
        return HttpResponse(status=204)
    # Only the pace has changed: swap the poller alone, so that focus and selection stay.
    return retarget(render(request, "reports/_poll.html", screen), "#poll")


@private
@login_required
@require_safe
def text(request: PageRequest, job_id: UUID) -> HttpResponseBase:
    """The text as the model wrote it, to be kept as a file."""
    report = access(request.user.pk, job_id)
    if report.is_erased:
        return TemplateResponse(request, "410.html", status=410)
    if report.status != Status.SUCCEEDED:
        raise Http404
    return HttpResponse(
        report.result_text,
        content_type="text/markdown; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="report-{report.pk}.md"'},
    )


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


class SignOut(LogoutView):
    """Sign out by a form; whoever comes without one is offered it."""

    def http_method_not_allowed(
        self, request: HttpRequest, *args: object, **kwargs: Any
    ) -> HttpResponse:
        """405 with a button."""
        refused = super().http_method_not_allowed(request, *args, **kwargs)
        refused.content = render_to_string("registration/sign_out.html", request=request)
        return refused


def broken(request: HttpRequest) -> HttpResponse:  # noqa: ARG001  # Django fixes the signature
    """What no view expected: 503 when the database is away, 500 for a fault of ours."""
    if not isinstance(sys.exception(), OperationalError | InterfaceError):
        return HttpResponse(render_to_string("500.html"), status=500)
    page = HttpResponse(render_to_string("503.html"), status=503)
    page.headers["Retry-After"] = str(DATABASE_RETRY_S)
    return page


def _ask_then(
    act: Callable[[ReportJob], bool], request: PageRequest, job_id: UUID, *, template: str
) -> HttpResponseBase:
    report = access(request.user.pk, job_id)
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
        "steps": timeline.steps(report),
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
