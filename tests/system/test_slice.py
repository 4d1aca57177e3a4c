"""The tests of the source design: the whole slice on real parts, from the POST to the page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import requests
from django.conf import settings

from reports import messages
from reports.models import ReportJob
from tests.support.provider import Answer
from tests.support.rows import budget
from tests.support.waiting import until
from tests.system.parts import SOON_S, Caller, called, published

if TYPE_CHECKING:
    import redis

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
# No sweep and no lease ends within these tests: what happens is the worker's doing.
LONG = {"SWEEP_INTERVAL_S": "3600", "INFERENCE_TIMEOUT_S": "60"}
AT_ONCE_S = 2.0


@pytest.fixture(scope="module")
def running(shared: Processes) -> str:
    """A web process and a worker for those who need no other, on a broker of their own."""
    apart = f"{settings.REDIS_URL.rpartition('/')[0]}/5"
    shared.worker(**LONG, REDIS_URL=apart)
    return shared.web(**LONG, REDIS_URL=apart)


def until_drained(broker: redis.Redis) -> None:
    """No message waits, and none is being worked on."""
    until(
        lambda: (broker.llen(messages.JOBS_QUEUE), broker.hlen("unacked")),
        lambda seen: seen == (0, 0),
        within_s=SOON_S,
    )


def test_a_duplicate_key_does_not_double_spend(
    crew: Processes, stand_in: Provider, ada: Api, broker: redis.Redis
):
    caller = Caller(crew.web(**LONG), ada.token)

    answers = [caller.post("hello", key="twice") for _ in range(2)]
    [job] = ReportJob.objects.all()
    until(lambda: broker.llen(messages.JOBS_QUEUE), lambda length: length == 1)

    assert [answer.status_code for answer in answers] == [202, 202]
    assert [answer.json() for answer in answers] == [
        {"job_id": str(job.pk), "status": "queued"}
    ] * 2
    assert called(stand_in) == []
    assert budget(ada.user)["active_jobs"] == 1

    crew.worker(**LONG)
    assert caller.ended(str(job.pk))["text"] == "hello"
    assert called(stand_in) == [str(job.pk)]

    published(job)
    until_drained(broker)
    assert called(stand_in) == [str(job.pk)]
    assert caller.post("hello", key="twice").json()["status"] == "succeeded"


def test_the_reader_does_not_see_somebody_elses_job(
    transactional_db: None, running: str, stand_in: Provider, ada: Api, bob: Api
):
    hers, his = Caller(running, ada.token), Caller(running, bob.token)
    [job_id] = hers.accepted(1)
    assert hers.ended(job_id)["status"] == "succeeded"

    answer = his.ask("GET", f"/reports/{job_id}")

    assert answer.status_code == 404
    assert answer.json()["error"] == "not_found"
    assert his.ask("GET", "/reports").json()["results"] == []
    assert requests.get(f"{running}/reports/{job_id}", timeout=SOON_S).status_code == 401


def test_a_provider_that_answers_503_ends_the_job_and_the_polling(
    transactional_db: None, running: str, stand_in: Provider, ada: Api
):
    stand_in.script(Answer(status=503, body=b"<html>overloaded</html>"))
    caller = Caller(running, ada.token)
    [job_id] = caller.accepted(1)

    job = caller.ended(job_id)

    assert (job["status"], job["http_status"], job["error_code"]) == (
        "failed",
        503,
        "provider_5xx",
    )
    assert "<" not in job["error_detail"]
    assert called(stand_in) == [job_id]
    assert budget(ada.user)["spent_tokens"] == 0
    assert budget(ada.user)["active_jobs"] == 0
    page = page_of(ada, running, job_id)
    assert "503" in page
    assert not polls(page)


def page_of(api: Api, address: str, job_id: str) -> str:
    """A job's page as a signed-in browser gets it."""
    cookies = {"sessionid": api.browser().cookies["sessionid"].value}
    answer = requests.get(f"{address}/jobs/{job_id}/", cookies=cookies, timeout=SOON_S)
    assert answer.status_code == 200
    return answer.text


def polls(page: str) -> bool:
    """Whether a page asks again by itself, with scripts or without."""
    return "hx-get" in page or 'http-equiv="refresh"' in page


def test_a_worker_killed_while_it_runs_leaves_a_readable_job(
    crew: Processes, stand_in: Provider, ada: Api
):
    stand_in.hold()
    caller = Caller(crew.web(**LONG), ada.token)
    worker = crew.worker(**LONG)
    [job_id] = caller.accepted(1)
    stand_in.wait_for_calls(1, limit_s=SOON_S)

    worker.kill()

    job = caller.job(job_id)
    assert (job["status"], job["http_status"], job["finished_at"]) == ("running", None, None)
    assert job["started_at"] is not None
    assert caller.post("another").status_code == 202


def test_no_post_waits_for_the_provider(
    transactional_db: None, running: str, stand_in: Provider, ada: Api
):
    stand_in.hold()
    caller = Caller(running, ada.token)
    first = caller.accepted(1)
    stand_in.wait_for_calls(1, limit_s=SOON_S)

    began = time.monotonic()
    others = caller.accepted(5)
    took_s = time.monotonic() - began

    assert took_s < 5 * AT_ONCE_S
    assert caller.job(first[0])["status"] == "running"
    assert polls(page_of(ada, running, first[0]))
    stand_in.release()
    ended = [caller.ended(job_id)["status"] for job_id in (*first, *others)]
    assert ended == ["succeeded"] * 6
    assert called(stand_in) == sorted((*first, *others))
