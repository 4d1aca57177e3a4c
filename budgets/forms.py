"""What an operator fills in to change what somebody may spend: an amount, and always a reason."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms

from budgets.caps import LARGEST_CAP, LONGEST_REASON
from budgets.models import GroupAllowance, InferenceBudget

if TYPE_CHECKING:
    BudgetModelForm = forms.ModelForm[InferenceBudget]
    AllowanceModelForm = forms.ModelForm[GroupAllowance]
else:  # generic for the type checker only
    BudgetModelForm = AllowanceModelForm = forms.ModelForm

LARGEST_FACTOR = 1000


class Tokens(forms.IntegerField):
    """Tokens a day, with their bounds told as a person would."""

    def __init__(self, **how: Any) -> None:
        super().__init__(
            **{"min_value": 0, "max_value": LARGEST_CAP, "help_text": "Tokens a UTC day.", **how}
        )


class Reason(forms.CharField):
    """Why; it is kept with the change."""

    widget = forms.Textarea({"rows": 2, "cols": 60})

    def __init__(self) -> None:
        super().__init__(
            label="Reason",
            max_length=LONGEST_REASON,
            help_text="Kept with the change, for whoever asks later.",
        )


class CapForm(BudgetModelForm):
    """A user's own cap."""

    daily_tokens = Tokens(label="Cap")
    why = Reason()

    class Meta:
        model = InferenceBudget
        fields = ("user", "daily_tokens")

    def clean(self) -> dict[str, Any]:
        """Refuse what would change nothing."""
        found = super().clean() or self.cleaned_data
        if self.instance.pk and self.instance.is_own and "daily_tokens" not in self.changed_data:
            self.add_error("daily_tokens", "This is the user's own cap already.")
        return found


class AllowanceForm(AllowanceModelForm):
    """What a group's members may spend, as far as nothing is set on them."""

    daily_tokens = Tokens(label="Allowance")
    why = Reason()

    class Meta:
        model = GroupAllowance
        fields = ("group", "daily_tokens")

    def clean(self) -> dict[str, Any]:
        """Refuse what would change nothing."""
        found = super().clean() or self.cleaned_data
        if self.instance.pk and "daily_tokens" not in self.changed_data:
            self.add_error("daily_tokens", "This is the group's allowance already.")
        return found


class ReasonForm(forms.Form):
    """A change that needs nothing but a reason."""

    why = Reason()


class CapsForm(forms.Form):
    """A cap for many users: the same for all, or each one's present one times a factor."""

    daily_tokens = Tokens(label="New cap", required=False)
    factor = forms.DecimalField(
        required=False,
        min_value=Decimal(0),
        max_value=LARGEST_FACTOR,
        max_digits=8,
        decimal_places=4,
        help_text="Or: what each may spend a day now, times this. 1.5 is half as much again.",
    )
    why = Reason()

    def clean(self) -> dict[str, Any]:
        """One of the two ways."""
        found = super().clean() or self.cleaned_data
        if not self.errors and (found["daily_tokens"] is None) == (found["factor"] is None):
            self.add_error(None, "Fill in a new cap or a factor, one of the two.")
        return found

    def cap_after(self, daily_tokens: int) -> int:
        """The cap of a user who may spend this much a day now."""
        new, factor = self.cleaned_data["daily_tokens"], self.cleaned_data["factor"]
        return int(new) if factor is None else min(int(daily_tokens * factor), LARGEST_CAP)
