"""One's own webhooks: see them and what became of their messages, make one, try it, end it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from reports.answers import PageRequest, SeeOther, private
from reports.errors import InvalidRequest, NotFound, Refusal
from webhooks import endpoints
from webhooks.models import ALIKE, LONGEST_DESCRIPTION, WebhookDelivery, WebhookEndpoint

if TYPE_CHECKING:
    from uuid import UUID

    from django.http import HttpResponseBase

SHOWN_DELIVERIES = 50


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def hooks(request: PageRequest) -> HttpResponseBase:
    """The user's webhooks and a form for another one; a POST makes it and shows its secret."""
    if request.method != "POST":
        return _list(request)
    sent = {name: request.POST.get(name, "").strip() for name in ("url", "description")}
    asked: dict[str, object] = {**sent, "events": request.POST.getlist("events")}
    try:
        return _list(request, made=endpoints.create(request.user.pk, asked))
    except Refusal as refusal:
        return _list(request, status=refusal.status, problem=_in_words(refusal), sent=sent)


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def hook(request: PageRequest, webhook_id: UUID) -> HttpResponseBase:
    """One webhook with its deliveries; a POST does what its button says."""
    try:
        endpoint = WebhookEndpoint.objects.access(request.user.pk, str(webhook_id))
        if request.method != "POST":
            return _one(request, endpoint)
        return _act(request, endpoint)
    except NotFound:
        raise Http404 from None
    except Refusal as refusal:
        messages.info(request, refusal.text)
        return SeeOther(reverse("hook", args=[webhook_id]))


def _act(request: PageRequest, endpoint: WebhookEndpoint) -> HttpResponseBase:
    match request.POST.get("act", ""):
        case "rotate":
            return _one(request, endpoint, made=endpoints.rotate(endpoint))
        case "delete":
            endpoint.delete()
            messages.info(request, "The webhook is deleted.")
            return SeeOther(reverse("hooks"))
        case "test":
            endpoints.try_out(endpoint)
            messages.info(request, "A test message is on its way.")
        case "on" | "off" as way:
            endpoints.change(endpoint, {"is_enabled": way == "on"})
        case "replay":
            named = request.POST.get("delivery", "")
            endpoints.send_again(endpoint, WebhookDelivery.objects.access(endpoint, named))
            messages.info(request, "The message goes out again.")
        case _:
            pass  # no button of ours says that
    return SeeOther(reverse("hook", args=[endpoint.pk]))


def _list(request: PageRequest, *, status: int = 200, **shown: object) -> HttpResponseBase:
    context = {
        "hooks": WebhookEndpoint.objects.owned_by(request.user.pk),
        "events": ALIKE.items(),
        "longest_description": LONGEST_DESCRIPTION,
        **shown,
    }
    return TemplateResponse(request, "webhooks/hooks.html", context, status=status)


def _one(request: PageRequest, endpoint: WebhookEndpoint, **shown: object) -> HttpResponseBase:
    rows = WebhookDelivery.objects.filter(endpoint=endpoint).order_by("-pk")
    context = {"hook": endpoint, "deliveries": rows[:SHOWN_DELIVERIES], **shown}
    return TemplateResponse(request, "webhooks/hook.html", context)


def _in_words(refusal: Refusal) -> str:
    match refusal:
        case InvalidRequest(members={"errors": dict(errors)}):
            return " ".join(str(text) for texts in errors.values() for text in texts)
        case _:
            return refusal.text
