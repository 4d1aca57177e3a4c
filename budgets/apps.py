"""The app of budgets."""

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """A user's daily allowance of tokens."""

    name = "budgets"
