"""The usage page: what jobs reserved, settled and gave back, by day and by user, with charts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.template.response import TemplateResponse
from django.views.decorators.http import require_safe

from budgets.rows import statements_within
from operations.charts import Chart, Series, columns, rows
from reports import usage
from reports.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import HttpRequest

DAYS = 30
MOST_DAYS = 92
MOST_USERS = 20
FIRST_DAY = date(2000, 1, 1)
PRESETS = (7, 30, 90)
LIMIT_MS = 5000
TOO_LONG = "The database took too long for this range. Choose a shorter one."


class RangeForm(forms.Form):
    """Which days, and whose; what is left out is the last thirty days, and everybody."""

    since = forms.DateField(required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(required=False, widget=forms.DateInput({"type": "date"}))
    user = forms.CharField(
        required=False, max_length=150, widget=forms.TextInput({"placeholder": "everybody"})
    )

    def clean_user(self) -> int | None:
        """The id of the user of that name."""
        name = self.cleaned_data["user"]
        if not name:
            return None
        users = get_user_model().objects.filter(username=name)
        user_id: int | None = users.values_list("pk", flat=True).first()
        if user_id is None:
            raise forms.ValidationError("There is no user of this name.")
        return user_id

    def clean(self) -> dict[str, Any]:
        """The range with its defaults, in order and not too long."""
        found = super().clean() or self.cleaned_data
        if self.errors:
            return found
        today = datetime.now(UTC).date()
        found["until"] = found["until"] or today
        if found["until"] < FIRST_DAY:
            self.add_error("until", "This day is too long ago.")
            return found
        found["since"] = found["since"] or found["until"] - timedelta(days=DAYS - 1)
        if found["since"] > found["until"]:
            self.add_error("since", "This day comes after the last one.")
        elif found["until"] > today + timedelta(days=1):
            self.add_error("until", "This day is still to come.")
        elif (found["until"] - found["since"]).days >= MOST_DAYS:
            self.add_error("since", f"{MOST_DAYS} days at most are shown at once.")
        return found


@require_safe
def page(request: HttpRequest) -> TemplateResponse:
    """Usage by day, and by user unless one is asked for. Raises PermissionDenied."""
    if not request.user.has_perm("budgets.view_inferencebudget"):
        raise PermissionDenied
    today = datetime.now(UTC).date()
    form = RangeForm({"since": _back(today, DAYS), "until": today, **request.GET.dict()})
    context: dict[str, Any] = {
        **admin.site.each_context(request),
        "title": "Usage of tokens",
        "form": form,
        "presets": [(days, _back(today, days)) for days in PRESETS],
    }
    if form.is_valid():
        try:
            with statements_within(LIMIT_MS):
                context |= _figures(**form.cleaned_data)
        except DatabaseError:
            form.add_error(None, TOO_LONG)
    status = 200 if form.is_valid() else 400
    return TemplateResponse(request, "operations/usage.html", context, status=status)


def _back(until: date, days: int) -> date:
    return until - timedelta(days=days - 1)


def _figures(*, since: date, until: date, user: int | None) -> dict[str, Any]:
    found = _of_days(since, until, user)
    if user is None:
        found |= _of_users(since, until)
    return found


def _of_days(since: date, until: date, user_id: int | None) -> dict[str, Any]:
    by_day = usage.by_day(since, until, user_id=user_id)
    days = [since + timedelta(days=i) for i in range((until - since).days + 1)]
    used = [by_day.get(day, Usage()) for day in days]
    labels = [f"{day:%m-%d}" for day in days]
    reserved = Series("reserved", "", [one.reserved_tokens for one in used])
    tokens = Chart(
        id="days",
        title="Tokens by day (UTC)",
        labels=labels,
        series=_went(used),
        mark=reserved,  # not a part of the bar: usage may have exceeded it
    )
    ends = Series("unclear ends", "cross", [one.unclear_ends for one in used])
    unclear = Chart(id="unclear", title="Unclear ends by day (UTC)", labels=labels, series=[ends])
    return {
        "since": since,
        "until": until,
        "days": list(zip(days, used, strict=True))[::-1],
        "sum": sum(used, Usage()),
        "day_drawing": columns(tokens),
        "unclear_drawing": columns(unclear),
    }


def _of_users(since: date, until: date) -> dict[str, Any]:
    by_user = usage.by_user(since, until, most=MOST_USERS)
    users = get_user_model().objects.in_bulk(by_user)
    used = {users[key].get_username(): one for key, one in by_user.items() if key in users}
    tokens = Chart(
        id="users",
        title="Tokens by user, the largest first",
        labels=list(used),
        series=_went(list(used.values())),
    )
    return {"users": list(used.items()), "user_drawing": rows(tokens)}


def _went(used: Sequence[Usage]) -> list[Series]:
    """The ways that reserved tokens go."""
    released = [one.released_tokens - one.unclear_tokens for one in used]
    return [
        Series("settled", "solid", [one.settled_tokens for one in used]),
        Series("released", "hatch", released),
        Series("released, may be billed", "cross", [one.unclear_tokens for one in used]),
    ]
