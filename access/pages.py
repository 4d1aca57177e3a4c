"""One's own tokens: see them, make one, revoke one. Works with scripts and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from access.forms import LIFETIMES, NewToken
from access.models import LONGEST_NAME, Token
from reports.answers import PageRequest, SeeOther, private

if TYPE_CHECKING:
    from django.http import HttpResponseBase

# A page can show them all, and nobody needs more.
MOST_TOKENS = 100
USUAL_DAYS = "90"


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: PageRequest) -> HttpResponseBase:
    """The user's tokens and a form for another one; a POST makes it and shows it this once."""
    if request.method != "POST":
        return _page(request)
    form = NewToken(request.POST)
    if not form.is_valid():
        problem = f"Give the token a name of 1 to {LONGEST_NAME} characters, and one of the ends."
        return _page(request, status=400, problem=problem)
    if Token.objects.owned_by(request.user.pk).count() >= MOST_TOKENS:
        problem = f"You have {MOST_TOKENS} tokens. Revoke one that you do not use any more."
        return _page(request, status=409, problem=problem)
    name = form.cleaned_data["name"]
    made, token = Token.objects.create(request.user, form.lifetime(), name=name)
    return _page(request, made=made, token=token)


@private
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: PageRequest, token_id: int) -> HttpResponseBase:
    """Ask, then revoke: whoever uses the token is refused from now on."""
    token = get_object_or_404(Token.objects.owned_by(request.user.pk), pk=token_id)
    if request.method != "POST":
        return TemplateResponse(request, "access/revoke.html", {"token": token})
    token.delete()
    messages.info(request, f"{token} is revoked.")
    return SeeOther(reverse("tokens"))


def _page(request: PageRequest, *, status: int = 200, **shown: object) -> HttpResponseBase:
    context = {
        "tokens": Token.objects.owned_by(request.user.pk),
        "lifetimes": LIFETIMES,
        "chosen": request.POST.get("days", USUAL_DAYS),
        "name": request.POST.get("name", "") if "problem" in shown else "",
        "longest_name": LONGEST_NAME,
        **shown,
    }
    return TemplateResponse(request, "access/tokens.html", context, status=status)
