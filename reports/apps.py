"""The app of reports."""

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    """Completions as jobs."""

    name = "reports"
