"""The process that streams events: hints make it quick, the rows make it right."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
import redis
import requests
from django.contrib.auth import get_user_model

from access.models import Token
from reports import events, hints, transitions
from reports.errors import ErrorCode
from reports.models import ReportJob
from reports.provider import Completion, Failure
from tests.support.provider import Answer
from tests.support.rows import job_in
from tests.support.sse import Listener
from tests.support.waiting import until
from tools import valkey

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.clients import Api
    from tests.support.processes import Processes
    from tests.support.provider import Provider

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.django_db(transaction=True),
]
NOBODY = "redis://127.0.0.1:1/0"
HELLO = Completion("hello", "stop")


@pytest.fixture(scope="module")
def hinted(shared: Processes) -> str:
    """The address of a process that learns of changes by hints alone: it looks once a minute."""
    return shared.events(EVENTS_POLL_S="60")[1]


@pytest.fixture(scope="module")
def looking(shared: Processes) -> str:
    """The address of a process without a broker, which looks for itself; three streams a user."""
    return shared.events(EVENTS_POLL_S="0.2", REDIS_URL=NOBODY, EVENTS_PER_USER="3")[1]


@pytest.fixture
def listen(request: pytest.FixtureRequest) -> Generator[Callable[[str, Api, ReportJob], Listener]]:
    """Open streams; those that a test leaves open are closed."""
    opened: list[Listener] = []

    def start(address: str, api: Api, job: ReportJob) -> Listener:
        headers = {"Authorization": f"Bearer {api.token}"}
        opened.append(Listener(f"{address}/reports/{job.pk}/events", headers).open())
        return opened[-1]

    yield start
    for listener in opened:
        listener.leave()


def claimed(job: ReportJob) -> transitions.Claim:
    """Claim it."""
    held = transitions.claim(job.pk)
    assert held is not None
    return held


@pytest.mark.parametrize("how", ["hinted", "looking"])
def test_a_stream_tells_each_change_with_the_json_of_get_and_ends(
    request: pytest.FixtureRequest, listen, ada: Api, how: str
):
    job = job_in("queued", user=ada.user)
    stream = listen(request.getfixturevalue(how), ada, job)
    asked = [json.loads(ada.get(f"/reports/{job.pk}").content)]
    stream.next()

    held = claimed(job)
    asked.append(json.loads(ada.get(f"/reports/{job.pk}").content))
    stream.next()
    transitions.succeed(held, HELLO)
    asked.append(json.loads(ada.get(f"/reports/{job.pk}").content))
    stream.next()

    assert stream.statuses() == ["queued", "running", "succeeded"]
    assert [event.data for event in stream.events] == asked
    assert stream.rest() == []
    assert stream.open().answer.status_code == 204


@pytest.mark.parametrize("how", ["hinted", "looking"])
def test_a_stream_cut_and_resumed_at_every_event_loses_and_repeats_nothing(
    request: pytest.FixtureRequest, listen, ada: Api, how: str
):
    job = job_in("queued", user=ada.user)
    stream = listen(request.getfixturevalue(how), ada, job)
    stream.next()

    stream.leave()
    held = claimed(job)
    stream.open().next()
    stream.leave()
    stream.open()
    transitions.postpone(held, wait_s=0)
    events.postponed(job.pk, code="provider_unreachable", wait_s=0)  # as the runner tells it
    stream.next()
    stream.leave()
    held = claimed(job)
    transitions.fail(held, Failure(ErrorCode.PROVIDER_5XX, 503, "It answered 503."))
    stream.open().next()

    assert stream.statuses() == ["queued", "running", "queued", "failed"]
    assert len({event.mark for event in stream.events}) == 4


def test_many_who_watch_are_told_and_who_comes_between_is_told_too(hinted: str, listen, ada: Api):
    job = job_in("queued", user=ada.user)
    streams = [listen(hinted, ada, job) for _ in range(5)]
    for stream in streams:
        stream.next()

    held = claimed(job)
    late = listen(hinted, ada, job)
    for stream in streams:
        stream.next()
    transitions.succeed(held, HELLO)
    for stream in (*streams, late):
        stream.rest()

    assert [stream.statuses() for stream in streams] == [["queued", "running", "succeeded"]] * 5
    assert late.statuses()[-1] == "succeeded"


@pytest.mark.parametrize("what", ["token", "user", "logout", "password", "row", "texts"])
def test_a_stream_ends_with_the_right_to_look(looking: str, listen, ada: Api, what: str):
    job = job_in("running", user=ada.user)
    browser = ada.browser()
    if what in {"logout", "password"}:
        cookie = browser.cookies["sessionid"].value
        path = f"{looking}/reports/{job.pk}/events"
        stream = Listener(path, {"Cookie": f"sessionid={cookie}"}).open()
    else:
        stream = listen(looking, ada, job)
    stream.next()

    match what:
        case "token":
            Token.objects.all().delete()
        case "user":
            get_user_model().objects.update(is_active=False)
        case "logout":
            browser.logout()
        case "password":
            ada.user.set_password("another one")
            ada.user.save()
        case "row":
            job.delete()
        case _:
            transitions.cancel(job)
            transitions.erase(ReportJob.objects.get())

    # Cancelled before it was erased: where that was seen in between, it is told.
    assert [event.data["status"] for event in stream.rest()] in ([], ["failed"])


def test_one_user_has_so_many_streams_and_another_has_more(
    looking: str, listen, ada: Api, bob: Api
):
    job = job_in("running", user=ada.user)
    streams = [listen(looking, ada, job) for _ in range(3)]
    for stream in streams:
        stream.next()

    refused = listen(looking, ada, job).answer
    other = listen(looking, bob, job_in("running", user=bob.user))
    streams[0].leave()

    assert refused.status_code == 429
    assert refused.json()["error"] == "too_many_streams"
    assert refused.json()["max_streams"] == 3
    assert int(refused.headers["Retry-After"]) > 0
    assert other.next().data["status"] == "running"
    until(lambda: listen(looking, ada, job).answer.status_code, lambda status: status == 200)


def test_sigterm_ends_every_stream_whole_and_the_client_resumes_elsewhere(
    crew: Processes, hinted: str, listen, ada: Api
):
    process, address = crew.events()
    job = job_in("running", user=ada.user)
    stream = listen(address, ada, job)
    stream.next()

    process.child.send_signal(signal.SIGTERM)

    assert stream.rest() == []  # a connection that is cut in the middle raises
    assert process.child.wait(30) == 0
    stream.address = stream.address.replace(address, hinted)
    stream.open()
    transitions.cancel(job)
    assert stream.next().data["error_code"] == "cancelled"
    assert stream.statuses() == ["running", "failed"]


def test_the_web_process_passes_streams_on_and_says_when_it_cannot(
    crew: Processes, ada: Api, listen
):
    port = str(valkey.free_port())
    web = crew.web(EVENTS_PORT=port)
    job = job_in("queued", user=ada.user)

    alone = listen(web, ada, job).answer
    process, _ = crew.events(EVENTS_PORT=port)
    stream = listen(web, ada, job)
    stream.next()
    claimed(job)
    stream.next()
    missing = requests.get(
        f"{web}/reports/none/events", headers={"Authorization": f"Bearer {ada.token}"}, timeout=20
    )
    process.terminate()

    assert (alone.status_code, alone.json()["error"]) == (503, "unavailable")
    assert int(alone.headers["Retry-After"]) > 0
    assert stream.statuses() == ["queued", "running"]
    assert stream.answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert stream.rest() == []
    assert (missing.status_code, missing.content) == (404, ada.get("/reports/none").content)


def test_a_broker_that_dies_and_comes_back_ends_no_stream(
    crew: Processes, own_broker: valkey.Valkey, listen, ada: Api
):
    _, address = crew.events(EVENTS_POLL_S="0.2", REDIS_URL=own_broker.url)
    job = job_in("queued", user=ada.user)
    stream = listen(address, ada, job)
    stream.next()

    def listeners() -> int:
        with redis.Redis.from_url(own_broker.url) as broker:
            return int(broker.pubsub_numsub(hints.channel(job.pk))[0][1])

    until(listeners)
    own_broker.child.kill()
    own_broker.child.wait(10)
    held = claimed(job)
    stream.next()
    own_broker.start()
    until(listeners)
    transitions.succeed(held, HELLO)
    stream.rest()

    assert stream.statuses() == ["queued", "running", "succeeded"]


def test_a_worker_that_dies_in_the_middle_of_a_stream_leaves_one_call_and_no_text(
    crew: Processes, hinted: str, stand_in: Provider, listen, ada: Api, broker: redis.Redis
):
    words = b"".join(b'data: {"text": "word %d "}\n\n' % number for number in range(100))
    stand_in.script(Answer(words, headers={"Content-Type": "text/event-stream"}, drip=(30, 0.1)))
    worker = crew.worker()
    ada.post("hello")
    job = ReportJob.objects.get()
    stream = listen(hinted, ada, job)
    while stream.next().kind != "text":
        continue

    assert broker.exists(hints.text_key(job.pk))
    worker.kill()
    crew.worker()
    stream.rest()

    assert stream.statuses()[-1] == "failed"
    assert stream.events[-1].data["error_code"] == "worker_lost"
    assert [call.job_id for call in stand_in.calls] == [str(job.pk)]
    until(lambda: not broker.exists(hints.text_key(job.pk)))


def test_the_process_serves_events_and_health_and_nothing_else(looking: str, ada: Api):
    headers = {"Authorization": f"Bearer {ada.token}"}

    statuses = [
        requests.get(f"{looking}{path}", headers=headers, timeout=20).status_code
        for path in ("/healthz", "/reports", "/admin/login/")
    ]

    assert statuses == [200, 404, 404]


def test_a_taken_port_is_one_line(shared: Processes, hinted: str):
    port = hinted.rpartition(":")[2]
    process = shared.start("events", EVENTS_PORT=port)

    assert process.child.wait(60) == 1
    assert process.said().strip() == f"EVENTS_PORT: {port} cannot be used: Address already in use"
