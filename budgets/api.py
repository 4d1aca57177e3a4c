"""GET /budget: the user's day of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.exceptions import NotAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from budgets.envelope import rfc3339
from budgets.models import InferenceBudget

if TYPE_CHECKING:
    from rest_framework.request import Request

    from budgets.envelope import Envelope


class BudgetView(APIView):
    """Your daily token budget."""

    def get_view_name(self) -> str:
        """The heading of the browsable page."""
        return "Budget"

    def get(self, request: Request) -> Response:
        """What is left of today, and when the count starts again."""
        envelope = InferenceBudget.objects.today(user_id_of(request))
        headers = {"Cache-Control": "private, no-cache", **envelope.headers()}
        return Response(as_json(envelope), headers=headers)


def user_id_of(request: Request) -> int:
    """The id of who is asking. Raises NotAuthenticated for an anonymous request."""
    user_id = request.user.pk
    if user_id is None:
        raise NotAuthenticated
    return user_id


def as_json(envelope: Envelope) -> dict[str, object]:
    """A day of tokens as the API shows it."""
    return {
        "daily_tokens": envelope.daily_tokens,
        "spent_tokens": envelope.spent_tokens,
        "remaining_tokens": envelope.remaining_tokens,
        "day_utc": envelope.day_utc.isoformat(),
        "resets_at": rfc3339(envelope.resets_at),
    }
