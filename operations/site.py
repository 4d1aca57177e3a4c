"""The admin site: Django's, whose front page first says how the product is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import path

from operations import front, usage

if TYPE_CHECKING:
    from django.http import HttpRequest
    from django.template.response import TemplateResponse
    from django.urls import URLPattern, URLResolver


class OperationsSite(admin.AdminSite):
    """Staff only, and each part by its own permission."""

    site_header = "Reports: operations"
    site_title = "Reports"
    index_title = "Operations"
    index_template = "operations/front.html"

    def index(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> TemplateResponse:
        """The front page, with the figures that this operator may see."""
        return super().index(request, {**(extra_context or {}), **front.figures(request.user)})

    def get_urls(self) -> list[URLResolver | URLPattern]:
        """Django's routes and the usage page."""
        page = path("usage/", self.admin_view(usage.page), name="usage")
        return [page, *super().get_urls()]
