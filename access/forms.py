"""What a new token needs to be told."""

from __future__ import annotations

from datetime import timedelta

from django import forms

from access.models import LONGEST_NAME

# Days, as text since it comes from a form; the empty one: until it is revoked.
LIFETIMES = [("7", "in 7 days"), ("30", "in 30 days"), ("90", "in 90 days"), ("365", "in a year")]
LIFETIMES += [("", "never")]


class NewToken(forms.Form):
    """A name and a lifetime."""

    name = forms.CharField(max_length=LONGEST_NAME)
    days = forms.ChoiceField(choices=LIFETIMES, required=False)

    def lifetime(self) -> timedelta | None:
        """How long the token is to be good. None: until it is revoked."""
        days = self.cleaned_data["days"]
        return timedelta(days=int(days)) if days else None
