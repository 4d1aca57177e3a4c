"""One helper per shape: what an error looks like, and what must not have changed."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from budgets.models import InferenceBudget
from reports.models import ReportJob
from tests.support.rows import row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Answer(Protocol):
    """An HTTP answer, of the test client, of requests or off a raw socket."""

    status_code: int

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in any case."""

    @property
    def content(self) -> bytes:
        """The body."""


def body_of(answer: Answer) -> Any:
    """The decoded JSON."""
    return json.loads(answer.content)


def assert_problem(answer: Answer, status: int, code: str) -> dict[str, Any]:
    """The answer is this problem document of RFC 9457, whole; returns its extension members."""
    document = body_of(answer)

    assert answer.status_code == status, document
    assert answer.headers["Content-Type"] == "application/problem+json"
    kind, detail = document.pop("type"), document.pop("detail")
    assert (document.pop("status"), document.pop("error")) == (status, code)
    assert document.pop("title") == HTTPStatus(status).phrase
    assert kind == "about:blank" or kind.startswith("https://")
    assert detail.endswith((".", '"')), detail
    assert "Traceback" not in detail
    members: dict[str, Any] = document
    return members


def everything() -> dict[str, list[dict[str, object]]]:
    """Every column of every job and every budget."""
    return {
        "jobs": [{**job} for job in ReportJob.objects.order_by("pk").values()],
        "budgets": [{**budget} for budget in InferenceBudget.objects.order_by("pk").values()],
    }


@contextmanager
def assert_nothing_written() -> Iterator[None]:
    """No job, no reservation, no changed column when the block ends."""
    before = everything()
    yield
    assert everything() == before


@contextmanager
def assert_unchanged(job: ReportJob) -> Iterator[None]:
    """The row is the same, field by field, when the block ends, and so are all budgets."""
    before = row(job), everything()["budgets"]
    yield
    assert (row(job), everything()["budgets"]) == before
