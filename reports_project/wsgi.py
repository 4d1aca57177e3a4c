"""Django as a WSGI application, with requests whose Content-Type cannot break their constructor."""

from __future__ import annotations

import os
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reports_project.settings")


class Request(WSGIRequest):
    """A request that survives a Content-Type which Django cannot parse, as some RFC 2231 ones."""

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            super()._set_content_type_params(meta)  # type: ignore[misc]  # not in the stubs
        except (ValueError, LookupError, TypeError):
            # Not JSON then, whatever it is: the API answers 415.
            meta["CONTENT_TYPE"] = "application/octet-stream"
            super()._set_content_type_params(meta)  # type: ignore[misc]  # not in the stubs


class Application(WSGIHandler):
    """Django's handler with our request."""

    request_class = Request


django.setup(set_prefix=False)
application = Application()
