"""A user's day for those who only look: reading a budget gives nobody the right to move it."""

from budgets.envelope import Envelope
from budgets.models import InferenceBudget


def today(user_id: int) -> Envelope:
    """The user's present UTC day."""
    return InferenceBudget.objects.today(user_id)
