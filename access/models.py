"""Bearer tokens: hashed, named, ending when told to, and with the time of their last use."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.db import models
from django.db.models import Q
from django.utils import timezone
from knox.crypto import hash_token
from knox.models import AbstractAuthToken, AuthTokenManager, get_digest_token
from knox.settings import CONSTANTS

from budgets.compiled import Given, Reading, Text, select
from budgets.rows import Now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.contrib.auth.models import AbstractBaseUser

LONGEST_NAME = 100
# Of a token, these characters are kept in the clear, so that its owner can tell which one it is.
SHOWN = 8
# How exact `last_used_at` is: a token that is used all the time is written to once in this while.
NOTED_EVERY = timedelta(hours=1)


class TokenQuerySet(models.QuerySet["Token"]):
    """Reads of tokens, chainable; each is one adjective."""

    def owned_by(self, user_id: int) -> TokenQuerySet:
        """One user's own."""
        return self.filter(user_id=user_id)

    def good(self) -> TokenQuerySet:
        """Not ended, and of a user who is active."""
        is_lasting = Q(expiry=None) | Q(expiry__gt=Now())
        return self.filter(is_lasting, user__is_active=True)


class TokenManager(AuthTokenManager.from_queryset(TokenQuerySet)):  # type: ignore[misc]  # as below
    """Makes tokens and finds them by what a client sends."""

    def create(
        self,
        user: AbstractBaseUser,
        expiry: timedelta | None = None,
        prefix: str | None = None,
        **columns: Any,
    ) -> tuple[Token, str]:
        """A new row, and the token, which is nowhere kept; `expiry` from now on, None: never."""
        digest, token = get_digest_token(prefix)
        # Past knox's own, which keeps more of the token in the clear.
        row = super(AuthTokenManager, self).create(
            digest=digest,
            token_key=token[:SHOWN],
            user=user,
            expiry=expiry and timezone.now() + expiry,
            **columns,
        )
        return row, token

    def presented(self, token: str) -> Token | None:
        """The good token that a client sent, with its user, in one statement; None: it is none."""
        row = PRESENTED.first(digest=hash_token(token))
        if row is None:
            return None
        columns, user_columns = _columns()
        found: Token = Token.from_db(None, columns, row[: len(columns)])
        found.user = get_user_model().from_db(None, user_columns, row[len(columns) :])
        return found


@cache
def _columns() -> tuple[list[str], list[str]]:
    """Of a token and of its user, by the names that a model's constructor takes them."""
    token, user = Token._meta, get_user_model()._meta
    return (
        [field.attname for field in token.concrete_fields],
        [field.attname for field in user.concrete_fields],
    )


def _presented() -> tuple[Text, Sequence[Any]]:
    columns, user_columns = _columns()
    rows = Token.objects.good().filter(digest=Given("digest", models.CharField())).order_by()
    return select(rows.values_list(*columns, *(f"user__{column}" for column in user_columns)))


PRESENTED = Reading(_presented)


class Token(AbstractAuthToken):  # type: ignore[misc]  # knox comes without types
    """One bearer token. `digest` is what is kept of it; `expiry` null: good until revoked."""

    # Not the primary key, as in knox: that would stand in the addresses of the admin.
    digest = models.CharField(max_length=CONSTANTS.DIGEST_LENGTH, unique=True, editable=False)
    token_key = models.CharField(max_length=SHOWN, editable=False)
    name = models.CharField(max_length=LONGEST_NAME, blank=True, default="")
    last_used_at = models.DateTimeField(null=True, editable=False)

    objects = TokenManager()

    class Meta:
        """In the order in which they were made."""

        ordering = ("-pk",)

    def __str__(self) -> str:
        return self.name or f"{self.token_key}…"

    @property
    def has_ended(self) -> bool:
        """Whether its time is over."""
        return self.expiry is not None and self.expiry <= timezone.now()

    def note_use(self) -> bool:
        """Write the time of use, once in NOTED_EVERY however many come at once; whether it did."""
        noted = self.last_used_at
        if noted is not None and timezone.now() - noted < NOTED_EVERY:
            return False
        is_due = Q(last_used_at=None) | Q(last_used_at__lt=Now() - NOTED_EVERY)
        rows = Token.objects.filter(is_due, pk=self.pk).update(last_used_at=Now())
        return bool(rows)
