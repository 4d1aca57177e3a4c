"""Operators change here what somebody may spend; each change is written down with its reason.

Each function is one transaction that locks the row it changes, so that what a change says it was is
what it really was. False: everything was so already, and nothing was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction

from budgets.models import CapChange, GroupAllowance, InferenceBudget

if TYPE_CHECKING:
    from django.contrib.auth.models import User

What = CapChange.What
LARGEST_CAP = 2**62
LONGEST_REASON = 500
FORGOTTEN = "(erased)"


@transaction.atomic
def set_cap(user_id: int, *, daily_tokens: int, by: User, why: str) -> bool:
    """Give one user a daily allowance of their own, whatever their groups allow."""
    reason = _checked(why, daily_tokens)
    row = _locked(user_id)
    if row.is_own and row.daily_tokens == daily_tokens:
        return False
    InferenceBudget.objects.filter(pk=user_id).update(daily_tokens=daily_tokens, is_own=True)
    was = row.daily_tokens if row.is_own else None
    _note(What.CAP, row.user, was=was, became=daily_tokens, why=reason, by=by)
    return True


@transaction.atomic
def follow_default(user_id: int, *, by: User, why: str) -> bool:
    """Take back what was set on a user: the groups' allowance counts, or DAILY_TOKEN_CAP."""
    reason = _checked(why)
    row = _locked(user_id)
    if not row.is_own:
        return False
    InferenceBudget.objects.filter(pk=user_id).update(
        daily_tokens=settings.DAILY_TOKEN_CAP, is_own=False
    )
    _note(What.DEFAULT, row.user, was=row.daily_tokens, became=None, why=reason, by=by)
    return True


@transaction.atomic
def reset_today(user_id: int, *, by: User, why: str) -> bool:
    """Let a user's day begin again: only what active jobs reserve stays spent."""
    reason = _checked(why)
    row = _locked(user_id)
    forgiven = InferenceBudget.objects.forgive(user_id)
    if forgiven is None:
        return False
    spent = row.spent_tokens
    _note(What.RESET, row.user, was=spent, became=spent - forgiven, why=reason, by=by)
    return True


@transaction.atomic
def set_allowance(group_id: int, *, daily_tokens: int | None, by: User, why: str) -> bool:
    """Give a group's members a daily allowance, or none (None)."""
    reason = _checked(why, daily_tokens)
    group = Group.objects.select_for_update().get(pk=group_id)
    allowances = GroupAllowance.objects.filter(pk=group_id)
    was = allowances.values_list("daily_tokens", flat=True).first()
    if was == daily_tokens:
        return False
    if daily_tokens is None:
        allowances.delete()
    else:
        GroupAllowance.objects.update_or_create(
            group=group, defaults={"daily_tokens": daily_tokens}
        )
    _note(What.GROUP, group, was=was, became=daily_tokens, why=reason, by=by)
    return True


def forget(user: User) -> None:
    """Take a user's name out of the changes of theirs and by them; the changes stay."""
    CapChange.objects.filter(user=user).update(name=FORGOTTEN)
    CapChange.objects.filter(by=user).update(by_name=FORGOTTEN)


def _locked(user_id: int) -> InferenceBudget:
    rows = InferenceBudget.objects.select_for_update()
    defaults = {"daily_tokens": settings.DAILY_TOKEN_CAP, "is_own": False}
    return rows.get_or_create(user_id=user_id, defaults=defaults)[0]


def _checked(why: str, daily_tokens: int | None = None) -> str:
    """The reason, trimmed. Raises ValueError for none, a long one, or a cap out of bounds."""
    reason = why.strip()
    if not 0 < len(reason) <= LONGEST_REASON:
        raise ValueError(f"a reason has from 1 to {LONGEST_REASON} characters")
    if daily_tokens is not None and not 0 <= daily_tokens <= LARGEST_CAP:
        raise ValueError(f"an allowance is from 0 to {LARGEST_CAP} tokens")
    return reason


def _note(
    what: str, whom: User | Group, *, was: int | None, became: int | None, why: str, by: User
) -> None:
    whose: dict[str, Any] = {"group" if isinstance(whom, Group) else "user": whom}
    CapChange.objects.create(
        **whose,
        what=what,
        name=str(whom),
        was=was,
        became=became,
        why=why,
        by=by,
        by_name=by.get_username(),
    )
