"""How a body is read and an answer's format chosen: strict about JSON, calm about odd headers."""

from __future__ import annotations

import json
from typing import IO, TYPE_CHECKING, Any, NoReturn

from django.conf import settings
from rest_framework.exceptions import NotAcceptable
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.parsers import BaseParser

from reports.errors import InvalidRequest, TooLarge, UnsupportedMediaType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rest_framework.renderers import BaseRenderer
    from rest_framework.request import Request

JSON = "application/json"
PROBLEM = "application/problem+json"
UTF8_NAMES = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class StrictJSONParser(BaseParser):
    """UTF-8 JSON (RFC 8259), without NaN and without surprises."""

    media_type = JSON

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """The decoded body. Raises TooLarge, or InvalidRequest with the reason under `body`."""
        raw = stream.read(settings.MAX_BODY_BYTES + 1)
        if len(raw) > settings.MAX_BODY_BYTES:
            raise TooLarge
        try:
            return json.loads(raw.decode("utf-8-sig"), parse_constant=_refuse_constant)
        except UnicodeDecodeError as error:
            raise InvalidRequest(body=f"Not UTF-8: byte {error.start} is wrong.") from None
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise InvalidRequest(body=f"Not JSON: {error.msg} at {where}.") from None
        except RecursionError:
            raise InvalidRequest(body="Nested too deeply.") from None
        except ValueError:
            raise InvalidRequest(
                body="Holds a number that is none in JSON, or is too long."
            ) from None


def body_of(request: Request) -> Any:
    """The decoded body. Raises UnsupportedMediaType, TooLarge or InvalidRequest.

    DRF takes an empty body for an empty object, whatever its media type.
    """
    if request.stream is None:
        Negotiation().select_parser(request, [StrictJSONParser()])
        raise InvalidRequest(body="The body is empty.")
    return request.data


class Negotiation(DefaultContentNegotiation):
    """DRF's choice of parser and renderer, without an exception for any header's bytes."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser:
        """The JSON parser. Raises UnsupportedMediaType for anything but plain JSON in UTF-8."""
        kind, _, parameters = (request.content_type or "").partition(";")
        coding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if kind.strip().lower() != JSON or coding != "identity" or not _is_utf8(parameters):
            raise UnsupportedMediaType
        return next(iter(parsers))

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> tuple[BaseRenderer, str]:
        """DRF's rule; a client that asks only for problem documents gets our JSON too."""
        ours = list(renderers)
        if PROBLEM in request.headers.get("Accept", "").lower():
            return ours[0], JSON
        try:
            chosen: tuple[BaseRenderer, str] = super().select_renderer(request, ours, format_suffix)
        except (ValueError, LookupError, TypeError):
            raise NotAcceptable from None
        return chosen


def _is_utf8(parameters: str) -> bool:
    """Whether the parameters of a media type leave it UTF-8, which is what JSON is anyway."""
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip(' "').lower() in UTF8_NAMES
    return True


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
