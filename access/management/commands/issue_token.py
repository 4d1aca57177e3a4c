"""`manage.py issue_token USERNAME`: print one new bearer token."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from access.models import LONGEST_NAME, Token

if TYPE_CHECKING:
    from argparse import ArgumentParser

LONGEST_DAYS = 36500


class Command(BaseCommand):
    """Print one new bearer token, alone on its line; only its hash is stored."""

    help = "Print one new bearer token for a user. It is shown once: only its hash is stored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The user, whether to create it, and what is known of the token."""
        parser.add_argument("username")
        parser.add_argument("--create", action="store_true", help="create the user if unknown")
        parser.add_argument("--name", default="", help="what the token is for")
        parser.add_argument(
            "--expires-in-days", type=int, metavar="DAYS", help="default: good until revoked"
        )

    def handle(
        self,
        *args: Any,
        username: str,
        create: bool,
        name: str,
        expires_in_days: int | None,
        **options: Any,
    ) -> None:
        """Raise CommandError for an unknown user, unless it may be created, and for odd values."""
        if expires_in_days is not None and not 0 < expires_in_days <= LONGEST_DAYS:
            raise CommandError(f"--expires-in-days must be from 1 to {LONGEST_DAYS}.")
        if len(name) > LONGEST_NAME:
            raise CommandError(f"--name must have at most {LONGEST_NAME} characters.")
        users = get_user_model().objects
        if create:
            # Without a password nobody can sign in as this user; it has tokens only.
            users.get_or_create(username=username, defaults={"password": "!"})
        user = users.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no user {username!r}. Add --create to make one.")
        expiry = None if expires_in_days is None else timedelta(days=expires_in_days)
        _, token = Token.objects.create(user, expiry, name=name)
        self.stdout.write(token)
