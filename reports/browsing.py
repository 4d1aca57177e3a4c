"""The API for a person with a browser: the same answers, with links and forms that really work.

DRF's own page sends forms that this API refuses, and cannot send an Idempotency-Key. Ours belongs
to the house: its style, its policy, and a script of its own that sends what a program would.
"""

from __future__ import annotations

import inspect
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.template import loader
from rest_framework.renderers import BrowsableAPIRenderer, JSONRenderer

from reports.models import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rest_framework.views import APIView

UNTOLD = ("HEAD", "OPTIONS")  # the same for every view


class BrowsingRenderer(BrowsableAPIRenderer):
    """One template for each route (`api/<name>.html`), and one for every other."""

    template = "api/browse.html"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The page of an answer; none of one that has no body."""
        context = dict(renderer_context or {})
        request, response = context["request"], context["response"]
        if response.status_code == HTTPStatus.NO_CONTENT:
            return b""
        match = request.resolver_match
        names = [f"api/{match.url_name}.html", self.template] if match else [self.template]
        page = {
            "name": context["view"].get_view_name(),
            "about": inspect.getdoc(type(context["view"])),
            "methods": _documented(context["view"]),
            "data": data,
            "content": _indented(data),
            "response": response,
            "sent_headers": sorted(response.items()),
            "job_id": context["kwargs"].get("job_id", ""),
            "statuses": Status.values,
            "new_key": str(uuid4()),
        }
        return loader.select_template(names).render(page, request=request)


def _documented(view: APIView) -> list[tuple[str, list[str]]]:
    """The methods of a view with the words of their docstrings; every second part is code."""
    handlers = {name: getattr(view, name.lower()) for name in view.allowed_methods}
    words = {name: inspect.getdoc(handler) or "" for name, handler in handlers.items()}
    return [
        (name, " ".join(text.split()).split("`"))
        for name, text in words.items()
        if name not in UNTOLD
    ]


def _indented(data: Any) -> str:
    text: bytes = JSONRenderer().render(data, "application/json", {"indent": 2})
    return text.decode()
