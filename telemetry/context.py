"""Which request and which job a thread is at work for, for every line that it writes meanwhile."""

from __future__ import annotations

import re
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = "X-Request-ID"
# What proxies make: UUIDs, hexadecimal, ULIDs. Nothing else is repeated in a line or an answer.
WELL_FORMED = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")

request_id: ContextVar[str] = ContextVar("request_id", default="")
job_id: ContextVar[str] = ContextVar("job_id", default="")


def request_id_from(header: str | None) -> str:
    """The id that a client or a proxy gave, if it is one, else a new one."""
    given = (header or "").strip()
    return given if WELL_FORMED.fullmatch(given) else uuid4().hex


def uuid_in(text: object) -> str:
    """The canonical form of a job id, empty for anything that is none."""
    try:
        return str(UUID(str(text)))
    except ValueError:
        return ""


@contextmanager
def at_work_for(*, request: str = "", job: object = "") -> Iterator[None]:
    """Name a request or a job in every line of this thread inside the block."""
    before = request_id.get(), job_id.get()
    request_id.set(request or before[0])
    job_id.set(str(job) or before[1])
    try:
        yield
    finally:
        request_id.set(before[0])
        job_id.set(before[1])
