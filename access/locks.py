"""Who tries passwords is locked out for a while, by name and address together (django-axes).

By name alone anybody could lock out anybody; by address alone one person a whole office.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axes.backends import AxesStandaloneBackend
from axes.models import AccessAttempt
from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

from access.addresses import address_of

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse


class LoginLock(AxesStandaloneBackend):  # type: ignore[misc]  # axes comes without types
    """The first of AUTHENTICATION_BACKENDS: refuses whoever is locked out, and signs nobody in."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, **credentials: Any
    ) -> None:
        """Raise PermissionDenied for who is locked out. Code without a request tries nothing."""
        if request is not None:
            super().authenticate(request, username=username, **credentials)


def locked_out(
    request: HttpRequest, _response: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """The sign-in page that says when to come back, for the admin's too (AXES_LOCKOUT_CALLABLE)."""
    name = (credentials or {}).get("username") or ""
    wait_s = _wait_s(name, address_of(request))
    minutes = -(-wait_s // 60)
    problem = (
        "Too many sign-ins with this name failed from where you are. Try again in "
        f"{minutes} {'minute' if minutes == 1 else 'minutes'}."
    )
    context = {
        "form": AuthenticationForm(request, initial={"username": name}),
        "next": request.POST.get("next", ""),
        "problem": problem,
    }
    page = TemplateResponse(request, "registration/login.html", context, status=429)
    page.headers["Retry-After"] = str(wait_s)
    add_never_cache_headers(page)
    return page.render()


def _wait_s(username: str, address: str | None) -> int:
    """Whole seconds until the last try that counted is forgotten, one at least."""
    tries = AccessAttempt.objects.filter(username=username, ip_address=address)
    last = tries.order_by("-attempt_time").values_list("attempt_time", flat=True).first()
    cool_off = settings.AXES_COOLOFF_TIME
    passed = timezone.now() - last if last else cool_off
    return max(1, int((cool_off - passed).total_seconds()))
