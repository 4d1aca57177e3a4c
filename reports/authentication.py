"""Who is asking: a bearer token in one statement, or the session of a signed-in user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone
from knox.crypto import hash_token
from knox.models import AuthToken
from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied

from reports.errors import CsrfFailed

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from rest_framework.request import Request

SCHEME = b"bearer"
LONGEST_TOKEN = 256


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>` (RFC 6750); of a token only its hash is stored.

    Knox's own class takes several statements and stumbles over tokens that are not ASCII.
    """

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, AuthToken] | None:
        """The token's user. None: no bearer credentials here. Raises AuthenticationFailed."""
        scheme, _, credentials = get_authorization_header(request).partition(b" ")
        if scheme.lower() != SCHEME:
            return None
        token = credentials.strip(b" ")
        if not token.isascii() or not 0 < len(token) <= LONGEST_TOKEN:
            raise AuthenticationFailed
        found = (
            AuthToken.objects.select_related("user")
            .filter(digest=hash_token(token.decode()))
            .first()
        )
        if found is None or not found.user.is_active:
            raise AuthenticationFailed
        if found.expiry is not None and found.expiry < timezone.now():
            raise AuthenticationFailed
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        """What a 401 says in WWW-Authenticate."""
        return "Bearer"


class CsrfCheckedSession(SessionAuthentication):
    """Django's session; a missing CSRF token has an error code of its own."""

    def enforce_csrf(self, request: Request) -> None:
        """Raise CsrfFailed unless the token is there and right."""
        try:
            super().enforce_csrf(request)
        except PermissionDenied as denied:
            raise CsrfFailed from denied
