"""The app of reports."""

from django.apps import AppConfig

from reports import events


class ReportsConfig(AppConfig):
    """Completions as jobs."""

    name = "reports"

    def ready(self) -> None:
        """Tell of everything that may happen, before it does."""
        events.begin()
