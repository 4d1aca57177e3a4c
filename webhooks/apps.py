"""The app of webhooks."""

from django.apps import AppConfig

from webhooks import telling


class WebhooksConfig(AppConfig):
    """Who is told that a job ended, and what became of the telling."""

    name = "webhooks"

    def ready(self) -> None:
        """Tell of everything that may happen, before it does."""
        telling.begin()
