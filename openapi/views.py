"""GET /schema and GET /docs. For everybody: they hold nothing of any user."""

from __future__ import annotations

import json
from functools import cache
from hashlib import blake2b
from typing import NamedTuple

import yaml
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import cache_control
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import etag, require_safe
from django.views.decorators.vary import vary_on_headers

from openapi.document import document
from openapi.probes import OPENAPI_JSON, YAML
from reports.errors import InvalidRequest
from reports.parsing import JSON
from reports.problems import answer

BY_FORMAT = {"json": JSON, "yaml": YAML}
# The first is for whoever does not mind, browsers among them.
SPOKEN = (JSON, OPENAPI_JSON, YAML)
# The page's script and style are files of Swagger UI, which draws its icons from data: URLs.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class Rendered(NamedTuple):
    """The document's bytes in one format, and their entity tag."""

    content: bytes
    etag: str


@csrf_exempt
@require_safe
def schema(request: HttpRequest) -> HttpResponseBase:
    """The OpenAPI document: JSON, or YAML where that is asked for (`Accept`, `?format=`)."""
    asked = request.GET.get("format")
    if asked is not None and asked not in BY_FORMAT:
        return answer(InvalidRequest(format=f"The format is one of {', '.join(BY_FORMAT)}."))
    media_type = BY_FORMAT.get(asked or "") or request.get_preferred_type(SPOKEN) or JSON
    return _send(request, media_type)


@cache
def _rendered(media_type: str) -> Rendered:
    if media_type == YAML:
        text = yaml.safe_dump(document(), sort_keys=False, allow_unicode=True)
    else:
        text = json.dumps(document(), ensure_ascii=False)
    content = text.encode()
    return Rendered(content, f'"{blake2b(content, digest_size=16).hexdigest()}"')


@cache_control(public=True, no_cache=True)
@vary_on_headers("Accept")
@etag(lambda _request, media_type: _rendered(media_type).etag)
def _send(_request: HttpRequest, media_type: str) -> HttpResponse:
    return HttpResponse(_rendered(media_type).content, content_type=media_type)


@csrf_exempt
@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """A page that shows the document, and on which every operation can be tried out."""
    page = render(request, "openapi/docs.html")
    page.headers["Content-Security-Policy"] = POLICY
    return page
