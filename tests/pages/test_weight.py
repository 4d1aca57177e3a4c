"""What a page weighs on the way to a browser that has nothing of it yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.pages.paths import job_path
from tests.support import html
from tests.support.processes import ROOT
from tests.support.rows import job_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.test import Client

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db

GZIP = {"Accept-Encoding": "gzip"}
MOST_BYTES = 60_000


def weight(browser: Client, path: str) -> int:
    """Bytes of a page and of all that it loads, as they travel."""
    page = html.read(browser.get(path))
    bodies = [browser.get(path, headers=GZIP).content]
    for _, attributes in page.tags:
        address = attributes.get("src") or (attributes.get("rel") and attributes.get("href")) or ""
        if address.startswith("/static/"):
            answer: object = browser.get(address, headers=GZIP)
            bodies.append(b"".join(cast("Iterable[bytes]", answer)))
    assert len(bodies) > 3
    return sum(map(len, bodies))


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed"])
def test_a_reports_page_is_light(browser: Client, ada: Api, status: str):
    assert weight(browser, job_path(job_in(status, user=ada.user))) < MOST_BYTES / 2


def test_the_front_page_is_light(browser: Client, ada: Api):
    for number in range(20):
        job_in("succeeded", user=ada.user, prompt=f"{number} " * 80)

    assert weight(browser, "/") < MOST_BYTES / 2


def test_a_page_travels_compressed_and_by_a_length_that_tells_nothing(browser: Client, ada: Api):
    path = job_path(job_in("succeeded", user=ada.user, result_text="long " * 2000))

    answers = [browser.get(path, headers=GZIP) for _ in range(10)]

    assert {answer.headers["Content-Encoding"] for answer in answers} == {"gzip"}
    assert all(len(answer.content) < 6_000 for answer in answers)
    assert len({len(answer.content) for answer in answers}) > 1


def test_the_sheet_is_written_by_hand_and_short():
    assert len((ROOT / "static" / "reports.css").read_text().splitlines()) < 400
