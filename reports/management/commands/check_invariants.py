"""`manage.py check_invariants`: verify on a live database what always holds."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from reports import invariants


class Command(BaseCommand):
    """Print what is off, row by row, and exit 1; or one line that says ok."""

    help = "Verify that no job is lost or doubled and that every budget agrees with its jobs."

    def handle(self, *args: Any, **options: Any) -> None:
        """Raise CommandError when a row is off."""
        faults = 0
        for fault in invariants.check():
            self.stdout.write(str(fault))
            faults += 1
        if faults:
            raise CommandError(f"{faults} rows are off.")
        jobs, active = invariants.counted()
        self.stdout.write(f"ok: {jobs} jobs, {active} of them active")
