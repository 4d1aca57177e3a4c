"""Whether whoever opened a stream may still look: tokens are revoked, sessions and users end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.utils import timezone

from access.models import Token

if TYPE_CHECKING:
    from collections.abc import Collection

    from django.contrib.auth.models import User
    from rest_framework.request import Request


@dataclass(frozen=True, slots=True)
class Right:
    """By what somebody was let in: a bearer token, or else a session."""

    user_id: int
    token_id: int | None = None
    session_key: str = field(default="", repr=False)
    # Of the password: another one ends the sessions of before.
    session_hash: str = field(default="", repr=False)


def of(request: Request) -> Right:
    """By what this authenticated request was let in."""
    user = cast("User", request.user)
    if isinstance(request.auth, Token):
        return Right(user.pk, token_id=request.auth.pk)
    session_key = request.session.session_key or ""
    return Right(user.pk, session_key=session_key, session_hash=user.get_session_auth_hash())


def lost(rights: Collection[Right]) -> set[Right]:
    """Those of these that have ended: a statement for tokens, two for sessions, however many."""
    by_token = {right.token_id for right in rights if right.token_id is not None}
    good = set(Token.objects.good().filter(pk__in=by_token).values_list("pk", flat=True))
    sessions = {right for right in rights if right.token_id is None}
    return {right for right in rights if right.token_id not in good} - _lasting(sessions)


def _lasting(rights: Collection[Right]) -> set[Right]:
    if not rights:
        return set()
    keys = Session.objects.filter(
        session_key__in={right.session_key for right in rights}, expire_date__gt=timezone.now()
    ).values_list("session_key", flat=True)
    users = get_user_model().objects.filter(
        pk__in={right.user_id for right in rights}, is_active=True
    )
    hashes = {user.pk: user.get_session_auth_hash() for user in users}
    present = set(keys)
    return {
        right
        for right in rights
        if right.session_key in present and hashes.get(right.user_id) == right.session_hash
    }
