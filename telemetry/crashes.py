"""What an error page or an error mail of Django may show: where it broke, never with which values.

Django hides what looks like a secret by its name; a prompt is called `prompt`, and with DEBUG on it
hides nothing of a form and of the variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

if TYPE_CHECKING:
    from collections.abc import ItemsView
    from types import FrameType

    from django.http import HttpRequest

NOT_SHOWN = "(not shown, since it may hold a prompt, a text or a key)"
HARMLESS = ("REQUEST_METHOD", "SERVER_PROTOCOL", "CONTENT_TYPE", "CONTENT_LENGTH")


class WithoutValues(SafeExceptionReporterFilter):
    """Shows no variable, no setting, no form and no header that could hold a value of somebody."""

    def get_traceback_frame_variables(
        self, request: HttpRequest | None, tb_frame: FrameType
    ) -> ItemsView[str, Any]:
        """None of them."""
        return dict[str, Any]().items()

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        """The names alone."""
        return {} if request is None else dict.fromkeys(request.POST, NOT_SHOWN)

    def get_safe_request_meta(self, request: HttpRequest | None) -> dict[str, Any]:
        """What describes the request and nobody in it."""
        meta = {} if request is None else request.META
        return {name: meta[name] for name in HARMLESS if name in meta}

    def get_safe_cookies(self, request: HttpRequest | None) -> dict[str, Any]:
        """None of them."""
        return {}

    def get_safe_settings(self) -> dict[str, Any]:
        """None of them: INFERENCE_URL and DATABASE_URL may hold a password."""
        return {}


class Reporter(ExceptionReporter):
    """Django's report without the messages of exceptions: a database's repeats the row."""

    def get_traceback_data(self) -> dict[str, Any]:
        """Everything that the page and the mail are made of."""
        data = super().get_traceback_data()
        data |= {
            "exception_value": NOT_SHOWN,
            "exception_notes": "",
            "unicode_hint": "",
            "request_GET_items": [],
            "request_FILES_items": [],
            "user_str": NOT_SHOWN,
        }
        if self.request is not None:
            data["request_insecure_uri"] = self.request.path
        for frame in data["frames"]:
            if frame.get("exc_cause") is not None:
                frame["exc_cause"] = type(frame["exc_cause"]).__name__
        if data["template_info"]:
            data["template_info"] = {**data["template_info"], "message": NOT_SHOWN}
        return data
