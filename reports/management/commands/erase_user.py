"""`manage.py erase_user USERNAME [--delete] [--yes]`: end what is kept of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from reports import persons
from telemetry import relay

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Cancel a user's jobs and erase their texts; with --delete, rows and account go too."""

    help = (
        "For a data request: cancel what is active of a user and erase all prompts and texts. The "
        "rows and the account stay, with keys, times and counts, unless --delete is given."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The user, how far to go, and whether to ask."""
        parser.add_argument("username")
        parser.add_argument("--delete", action="store_true", help="delete rows and account too")
        parser.add_argument("--yes", action="store_true", help="do not ask")

    def handle(self, *args: Any, username: str, delete: bool, yes: bool, **options: Any) -> None:
        """Raise CommandError for an unknown user, and when it is not confirmed."""
        user = get_user_model().objects.filter(username=username).first()
        if user is None:
            raise CommandError(f"There is no user {username!r}.")
        what = "all texts, rows and the account" if delete else "all prompts and texts"
        if not yes and input(f"Erase {what} of {username} for good? Type the name: ") != username:
            raise CommandError("Nothing was erased.")
        done = persons.erase(user, delete=delete)
        relay.hand_over()  # this process ends now, and its counts with it
        account = "the account is gone" if done.is_account_gone else "the account stays"
        self.stdout.write(
            f"{done.cancelled} jobs cancelled, {done.erased} erased, {done.deleted} deleted; "
            f"{account}."
        )
