"""Who is asking: a bearer token in one statement, or the session of a signed-in user."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied

from access import attempts
from access.addresses import address_of
from access.models import Token
from reports.errors import CsrfFailed, TooManyAttempts
from reports.problems import NotLetIn

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from rest_framework.request import Request

SCHEME = b"bearer"
LONGEST_TOKEN = 256


class BearerAuthentication(BaseAuthentication):
    """`Authorization: Bearer <token>` (RFC 6750); of a token only its hash is stored.

    Knox's own class takes several statements and stumbles over tokens that are not ASCII.
    """

    def authenticate(self, request: Request) -> tuple[AbstractBaseUser, Token] | None:
        """The token's user. None: no bearer credentials here.

        Raises AuthenticationFailed, or NotLetIn at an address that sent many bad tokens. A
        good one is good at any address, for many people may share it.
        """
        scheme, _, credentials = get_authorization_header(request).partition(b" ")
        if scheme.lower() != SCHEME:
            return None
        token = credentials.strip(b" ")
        if not token.isascii() or not 0 < len(token) <= LONGEST_TOKEN:
            _refuse(request)
        found = Token.objects.presented(token.decode())
        if found is None:
            _refuse(request)
        if attempts.how_many():  # most of the time there are none
            attempts.forget(address_of(request))
        found.note_use()
        return found.user, found

    def authenticate_header(self, request: Request) -> str:
        """What a 401 says in WWW-Authenticate."""
        return "Bearer"


class CsrfCheckedSession(SessionAuthentication):
    """Django's session; a missing CSRF token has an error code of its own."""

    def enforce_csrf(self, request: Request) -> None:
        """Raise NotLetIn unless the token is there and right."""
        try:
            super().enforce_csrf(request)
        except PermissionDenied as denied:
            raise NotLetIn(CsrfFailed()) from denied


def _refuse(request: Request) -> NoReturn:
    wait_s = attempts.note(address_of(request))
    if wait_s is None:
        raise AuthenticationFailed
    raise NotLetIn(TooManyAttempts(headers={"Retry-After": str(wait_s)}))
