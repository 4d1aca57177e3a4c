"""What the answers to people in front of a browser have in common."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, cast

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.http.response import HttpResponseRedirectBase
from django.template.loader import render_to_string
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.gzip import gzip_page

from reports.errors import NotFound
from reports.models import ReportJob

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from django.contrib.auth.models import User
    from django_htmx.middleware import HtmxDetails

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


@csrf_exempt
def nowhere(request: HttpRequest) -> HttpResponse:
    """404 in words, in development too, where Django would list every route instead."""
    return HttpResponse(render_to_string("404.html", request=request), status=404)


def private(view: Callable[P, HttpResponseBase]) -> Callable[P, HttpResponseBase]:
    """Let nobody keep a copy, so that Back shows the present state; send it compressed."""
    compressed = gzip_page(view)  # with padding of a random length: sizes tell nothing of secrets

    @wraps(view)
    def answer(*args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            response = compressed(*args, **kwargs)
        except Http404:
            response = nowhere(cast("HttpRequest", args[0]))
        patch_cache_control(response, private=True, no_store=True)
        patch_vary_headers(response, ["Cookie", "HX-Request"])
        return response

    return answer


def access(user_id: int, job_id: UUID | str) -> ReportJob:
    """One's own job. Raises Http404 for everything else."""
    try:
        return ReportJob.objects.access(user_id, str(job_id))
    except NotFound:
        raise Http404 from None
