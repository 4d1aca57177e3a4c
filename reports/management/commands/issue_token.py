"""`manage.py issue_token USERNAME [--create]`: print one new bearer token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from knox.models import AuthToken

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print one new bearer token, alone on its line; only its hash is stored."""

    help = "Print one new bearer token for a user. It is shown once: only its hash is stored."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The user, and whether to create it."""
        parser.add_argument("username")
        parser.add_argument("--create", action="store_true", help="create the user if unknown")

    def handle(self, *args: Any, username: str, create: bool, **options: Any) -> None:
        """Raise CommandError for an unknown user, unless it may be created."""
        users = get_user_model().objects
        if create:
            # Without a password nobody can sign in as this user; it has tokens only.
            users.get_or_create(username=username, defaults={"password": "!"})
        user = users.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no user {username!r}. Add --create to make one.")
        _, token = AuthToken.objects.create(user=user)
        self.stdout.write(token)
