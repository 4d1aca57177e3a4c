"""The app of tokens and locks."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    """Who may come in, and with what."""

    name = "access"
