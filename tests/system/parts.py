"""What the system tests share: short promises, callers over real HTTP, jobs and how they ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import requests
from django.db.models.functions import Now

from reports import dispatch
from reports.models import TERMINAL, ReportJob
from tests.support.rows import job_in
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.clients import Api
    from tests.support.provider import Provider

# A lease lasts 4 seconds, a lost message is sent again after 1, a worker ends within 1.
SHORT = {
    "INFERENCE_TIMEOUT_S": "3",
    "LEASE_GRACE_S": "1",
    "QUEUE_TTL_S": "120",
    "SWEEP_INTERVAL_S": "0.5",
    "REDISPATCH_AFTER_S": "1",
    "SHUTDOWN_GRACE_S": "1",
    "WORKER_CONCURRENCY": "4",
}
# What runs at once on a loaded machine may take this long to get its turn.
SOON_S = 30.0
_keys = count(1)


@dataclass(frozen=True, slots=True)
class Caller:
    """A user's program on the other side of the network."""

    address: str
    token: str

    def post(self, prompt: str = "hello", *, key: str | None = None) -> requests.Response:
        """POST /reports."""
        headers = {"Idempotency-Key": key or f"key-{next(_keys)}"}
        return self.ask("POST", "/reports", json={"prompt": prompt}, headers=headers)

    def accepted(self, how_many: int) -> list[str]:
        """The ids of so many new jobs."""
        answers = [self.post() for _ in range(how_many)]
        assert [answer.status_code for answer in answers] == [202] * how_many
        return [answer.json()["job_id"] for answer in answers]

    def job(self, job_id: str) -> dict[str, Any]:
        """What GET says of a job."""
        document: dict[str, Any] = self.ask("GET", f"/reports/{job_id}").json()
        return document

    def ended(self, job_id: str, *, within_s: float = SOON_S) -> dict[str, Any]:
        """What GET says of a job once it has ended."""
        return until(
            lambda: self.job(job_id), lambda job: job["status"] in TERMINAL, within_s=within_s
        )

    def ask(self, method: str, path: str, **rest: Any) -> requests.Response:
        """Any request."""
        headers = {"Authorization": f"Bearer {self.token}", **rest.pop("headers", {})}
        return requests.request(
            method, f"{self.address}{path}", headers=headers, timeout=SOON_S, **rest
        )


def ready(address: str) -> tuple[int, dict[str, str]]:
    """What /readyz says: its status, and a word on each part."""
    answer = requests.get(f"{address}/readyz", timeout=SOON_S)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    return answer.status_code, {line["part"]: line["status"] for line in lines}


def not_ready(address: str) -> dict[str, str]:
    """What /readyz says once it is 503; for a second it may repeat what it said before."""
    return until(lambda: ready(address), lambda seen: seen[0] == 503, within_s=SOON_S)[1]


def published(job: ReportJob) -> None:
    """Its message lies on the broker; a connection that was lost is made anew, as by the sweep."""
    until(lambda: dispatch.publish(job.pk), within_s=SOON_S)


def queued(api: Api, how_many: int = 1, *, is_published: bool = True) -> list[ReportJob]:
    """Jobs that wait, with their messages on the broker or lost."""
    jobs = [
        job_in("queued", user=api.user, publish_again_at=Now(), prompt=f"prompt {number}")
        for number in range(how_many)
    ]
    if is_published:
        for job in jobs:
            published(job)
    return jobs


def lost(api: Api, how_many: int = 1) -> list[ReportJob]:
    """Running jobs whose lease has run out."""
    return [
        job_in("running", user=api.user, age_s=600, lease_expires_at=Now()) for _ in range(how_many)
    ]


def endings(jobs: Sequence[ReportJob]) -> list[str]:
    """How these jobs have ended so far: the error's code, or the status."""
    rows = ReportJob.objects.filter(pk__in=[job.pk for job in jobs]).order_by("pk")
    return [code or status for status, code in rows.values_list("status", "error_code")]


def all_end(jobs: Sequence[ReportJob], ending: str, *, within_s: float = SOON_S) -> None:
    """Every one of them ends like this."""
    until(lambda: endings(jobs), lambda seen: seen == [ending] * len(jobs), within_s=within_s)


def is_running(job: ReportJob) -> bool:
    """Whether a worker holds it now."""
    return ReportJob.objects.running().filter(pk=job.pk).exists()


def called(stand_in: Provider) -> list[str]:
    """The job ids of all requests that the provider got, sorted."""
    return sorted(call.job_id for call in stand_in.calls)


def ids(jobs: Sequence[ReportJob]) -> list[str]:
    """Job ids as the provider sees them, sorted."""
    return sorted(str(job.pk) for job in jobs)
