"""`manage.py export_user USERNAME`: everything that is kept of a user, for a data request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from reports import persons

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Print one JSON document on standard output."""

    help = "Print everything that is kept of a user as one JSON document."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The user."""
        parser.add_argument("username")

    def handle(self, *args: Any, username: str, **options: Any) -> None:
        """Raise CommandError for an unknown user."""
        user = get_user_model().objects.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no user {username!r}.")
        for piece in persons.export(user):
            self.stdout.write(piece, ending="")
