"""Static files: small on the way, kept for ever by version, and asked for again by tag."""

from __future__ import annotations

import gzip
from hashlib import sha256
from typing import TYPE_CHECKING, cast

import pytest
from django.templatetags.static import static
from django.test import Client

from reports_project import statics
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from django.http import HttpResponse, StreamingHttpResponse

SHEET = (ROOT / "static" / "reports.css").read_bytes()
VERSION = sha256(SHEET).hexdigest()[:16]
PATH = "/static/reports.css"
GZIP = {"Accept-Encoding": "gzip, deflate, br, zstd"}


def get(path: str, **headers: str) -> tuple[HttpResponse, bytes]:
    """The answer and its body."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    response: object = Client().get(path, headers=named)
    body = b"".join(cast("StreamingHttpResponse", response))
    return cast("HttpResponse", response), body


def test_an_address_names_the_version_that_is_there():
    assert static("reports.css") == f"{PATH}?v={VERSION}"
    assert static("admin/img/") == "/static/admin/img/"
    assert static("nothing.css") == "/static/nothing.css"


def test_the_version_that_was_asked_for_is_kept_for_ever():
    response, body = get(static("reports.css"))

    assert body == SHEET
    assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert response.headers["ETag"] == f'"{VERSION}"'


@pytest.mark.parametrize(
    ("query", "kept"), [("?v=of-another-release", "no-cache"), ("", "max-age")]
)
def test_another_version_is_asked_for_again(query: str, kept: str):
    response, body = get(PATH + query)

    assert body == SHEET
    assert kept in response.headers["Cache-Control"]
    assert "immutable" not in response.headers["Cache-Control"]


def test_a_text_travels_compressed_and_is_itself_at_the_end():
    response, body = get(PATH, **GZIP)

    assert gzip.decompress(body) == SHEET
    assert len(body) < len(SHEET) / 2
    assert response.headers["Content-Encoding"] == "gzip"
    assert response.headers["Content-Length"] == str(len(body))
    assert response.headers["Content-Type"].startswith("text/css")
    assert "Accept-Encoding" in response.headers["Vary"]


@pytest.mark.parametrize("accepted", ["identity", "br", "gzip;q=0", "gzip; q=0.0, br"])
def test_who_takes_no_gzip_gets_none(accepted: str):
    response, body = get(PATH, Accept_Encoding=accepted)

    assert body == SHEET
    assert "Content-Encoding" not in response.headers
    assert "Accept-Encoding" in response.headers["Vary"]


def test_a_picture_travels_as_it_is():
    response, _ = get("/static/rest_framework/img/glyphicons-halflings.png", **GZIP)

    assert response.status_code == 200
    assert "Content-Encoding" not in response.headers


@pytest.mark.parametrize("headers", [{}, GZIP], ids=["plain", "gzip"])
def test_an_unchanged_file_is_a_304_without_a_body(headers: dict[str, str]):
    response, body = get(PATH, If_None_Match=f'"{VERSION}"', **headers)

    assert (response.status_code, body) == (304, b"")
    assert "Content-Security-Policy" in response.headers
    assert response.headers["ETag"] == f'"{VERSION}"'
    assert "Accept-Encoding" in response.headers["Vary"]


def test_a_part_of_a_file_is_a_part_of_the_file_itself():
    response, body = get(PATH, Range="bytes=0-3", **GZIP)

    assert (response.status_code, body) == (206, SHEET[:4])


def test_head_tells_the_size_that_get_sends():
    _, body = get(PATH, **GZIP)

    response = Client().head(PATH, headers=GZIP)

    assert response.headers["Content-Length"] == str(len(body))


def test_a_file_that_changes_has_another_version(tmp_path):
    file = tmp_path / "a.css"
    file.write_text("a")
    first = statics._version(file)
    file.write_text("another text")

    assert statics._version(file) != first
