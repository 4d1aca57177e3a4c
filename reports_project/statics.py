"""Static files without a collect step: each address names its version, texts travel compressed."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import Response

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import stat_result
    from wsgiref.headers import Headers

    from django.http import HttpRequest, HttpResponse
    from whitenoise.responders import StaticFile

TEXTS = frozenset({".css", ".html", ".js", ".json", ".map", ".svg", ".txt"})
ACCEPTS_GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")
FOREVER = "public, max-age=31536000, immutable"


class VersionedStorage(StaticFilesStorage):
    """Adds `?v=` to an address, so that browsers may keep what is there for ever."""

    def url(self, name: str | None) -> str:
        """The address of a file; of anything else, such as a folder, without a version."""
        path = _find(name or "")
        return f"{super().url(name)}?v={_version(path)}" if path else super().url(name)


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # comes without types
    """WhiteNoise, with tags that follow from contents and texts that are compressed once."""

    known: ClassVar[dict[str, StaticFile | Compressed]] = {}

    def add_files_from_finders(self) -> None:
        """Look once a process, however many handlers it makes: a test makes one a client."""
        if not self.known:
            self.files: dict[str, StaticFile | Compressed] = self.known
            super().add_files_from_finders()
        self.files = self.known

    def get_static_file(
        self, path: str, url: str, stat_cache: Mapping[str, stat_result] | None = None
    ) -> StaticFile | Compressed:
        """What answers requests for a file."""
        plain = super().get_static_file(path, url, stat_cache)
        return Compressed(plain, Path(path)) if _is_text(path) else plain

    def add_cache_headers(self, headers: Headers, path: str, url: str) -> None:
        """Add the tag, the same on every machine, whatever times its files have."""
        super().add_cache_headers(headers, path, url)
        headers["ETag"] = f'"{_version(Path(path))}"'
        if _is_text(path):
            headers["Vary"] = "Accept-Encoding"

    @staticmethod
    def serve(static_file: StaticFile | Compressed, request: HttpRequest) -> HttpResponse:
        """Answer; only the version that was asked for may be kept for ever."""
        response: HttpResponse = WhiteNoiseMiddleware.serve(static_file, request)
        wanted = request.GET.get("v")
        if wanted and "ETag" in response.headers:
            # Another one comes from a process that is older or newer than the one behind the page.
            is_wanted = response.headers["ETag"] == f'"{wanted}"'
            response.headers["Cache-Control"] = FOREVER if is_wanted else "no-cache"
        return response


class Compressed:
    """A text among the static files, compressed in memory when it is first asked for."""

    def __init__(self, plain: StaticFile, path: Path) -> None:
        self.plain = plain
        self.path = path

    def get_response(self, method: str, request_headers: Mapping[str, str]) -> Response:
        """WhiteNoise's answer, with a smaller body for whoever accepts one."""
        response: Response = self.plain.get_response(method, request_headers)
        accepted = request_headers.get("HTTP_ACCEPT_ENCODING", "")
        if response.status != HTTPStatus.OK or not ACCEPTS_GZIP.search(accepted):
            return response
        if response.file:
            response.file.close()
        body = _compressed(self.path, self.path.stat().st_mtime_ns)
        headers = {**dict(response.headers), "Content-Encoding": "gzip"}
        headers["Content-Length"] = str(len(body))
        return Response(response.status, list(headers.items()), response.file and BytesIO(body))


def _is_text(path: str) -> bool:
    return Path(path).suffix in TEXTS


def _find(name: str) -> Path | None:
    try:
        return _found(name)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=2048)
def _found(name: str) -> Path:
    path = finders.find(name)
    if not (isinstance(path, str) and Path(path).is_file()):
        raise FileNotFoundError(name)  # which is not cached: a developer may be about to add it
    return Path(path)


def _version(path: Path) -> str:
    return _digest(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2048)
def _digest(path: Path, _mtime_ns: int) -> str:
    return sha256(path.read_bytes()).hexdigest()[:16]


@lru_cache(maxsize=2048)
def _compressed(path: Path, _mtime_ns: int) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)
