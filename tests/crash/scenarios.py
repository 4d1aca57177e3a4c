"""What the crash sweep interrupts: each scenario is one job, and one thing that happens to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db.models.functions import Now

from reports import dispatch, hints, partial, sweep, tasks
from reports.errors import ErrorCode
from reports.models import ReportJob, Status
from tests.crash import telling
from tests.support.provider import Answer
from tests.support.rows import give_budget, job_in
from tests.webhooks.making import listening
from webhooks import outbox
from webhooks.models import WebhookWatermark

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.client import PubSub

    from tests.support.clients import Api

_ear: PubSub | None = None

PROMPT = "a prompt that is interrupted"
KEY = "crash-key"
TEXT = Answer.of({"text": "an answer", "usage": {"prompt_tokens": 5, "completion_tokens": 6}})
STREAMED = {"Content-Type": "text/event-stream"}
WORDS = b'data: {"text": "an "}\n\ndata: {"text": "answer"}\n\n'
STREAM = Answer(WORDS + b'data: {"finish_reason": "stop"}\n\n', headers=STREAMED)
CUT = Answer(WORDS, headers=STREAMED)
# Nothing more to tell comes behind its text, so that it is passed on once.
TOLD = b'data: {"text": "an answer"}\n\n'
SEEN = Answer(TOLD + b'data: {"finish_reason": "stop"}\n\n', headers=STREAMED)
TAKEN = Answer(b"", status=204, keep_open=False)
NOT_NOW = Answer(b"", status=500, keep_open=False)
GONE = Answer(b"", status=410, keep_open=False)
ANSWERED, RECEIVED = "before receive from provider", "before receive from receiver"
REFUSAL = Answer(b"{}", status=500)
BUSY = Answer(b"{}", status=429, headers={"Retry-After": "7"})  # it certainly did no work


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One act on the row that is prepared for it, and how that row is left when nothing dies."""

    prepare: Callable[[Api], object]
    act: Callable[[Api], object]
    ends_as: str
    by_client: bool = False  # who got no answer sends the same request again
    answers: tuple[Answer, ...] = (TEXT,)
    most_calls: int = 1
    receiver: tuple[Answer, ...] = ()  # of its user's webhook: a request each, if nothing dies
    since: str = ""  # dies from here on: up to it all is as in the scenario before
    thread: str = ""  # only in this one it dies
    last: str = ""  # the boundary of that thread that ends it
    waits_for_text: bool = False  # the provider ends its answer only when its text was passed on


def queued(api: Api, *, age_s: float = 0) -> ReportJob:
    """A job whose message is out of sight: taken by a worker, or lost."""
    return job_in(Status.QUEUED, user=api.user, prompt=PROMPT, idempotency_key=KEY, age_s=age_s)


def running(api: Api) -> ReportJob:
    """A job that some worker holds."""
    return job_in(Status.RUNNING, user=api.user, prompt=PROMPT, idempotency_key=KEY)


def succeeded(api: Api, *, age_s: float = 0) -> ReportJob:
    """A job with its text."""
    return job_in(Status.SUCCEEDED, user=api.user, prompt=PROMPT, idempotency_key=KEY, age_s=age_s)


def abandoned(api: Api) -> None:
    """A running job whose lease is over."""
    running(api)
    ReportJob.objects.update(lease_expires_at=Now() - timedelta(seconds=1))


def unpublished(api: Api) -> None:
    """A queued job whose message did not arrive in time."""
    queued(api)
    ReportJob.objects.update(publish_again_at=Now())


def ended(api: Api) -> None:
    """A job with its text, of which nobody was told yet."""
    succeeded(api)
    listening(api, os.environ["CRASH_RECEIVER"])
    # So old that a look moves it.
    WebhookWatermark.objects.create(scanned_until=Now() - timedelta(minutes=1))


def noted(api: Api) -> None:
    """The same with a delivery that is due."""
    ended(api)
    outbox.note()


def watched(api: Api) -> None:
    """A queued job that somebody watches, and connections for all who talk to the broker."""
    partial.EVERY_S = 0.02
    client = hints.broker()
    global _ear  # noqa: PLW0603  # listens as long as the process lives
    _ear = client.pubsub()
    _ear.subscribe(hints.channel(queued(api).pk))
    _ear.get_message(timeout=10)
    pool = client.connection_pool
    for connection in [pool.get_connection() for _ in range(2)]:
        pool.release(connection)


def the_job() -> ReportJob:
    """The one row; several are an error."""
    return ReportJob.objects.get()


def post(api: Api) -> None:
    """A client's POST, and its worker thread that publishes."""
    assert api.post(PROMPT, key=KEY).status_code == 202
    dispatch._publisher._waiting.join()


def run(api: Api) -> None:
    """A worker's task."""
    tasks.run(str(the_job().pk))


def cancel(api: Api) -> None:
    """A client's cancel."""
    assert api.request("POST", f"/reports/{the_job().pk}/cancel").status_code == 200


def erase(api: Api) -> None:
    """A client's DELETE."""
    assert api.request("DELETE", f"/reports/{the_job().pk}").status_code == 204


def sweep_once(api: Api) -> None:
    """One pass of the sweep."""
    sweep.sweep()


def tell(api: Api) -> None:
    """One turn of a messenger."""
    telling.tell()


def failed(code: ErrorCode) -> str:
    """How a failed row reads."""
    return f"failed {code}"


SCENARIOS = {
    "accept": Scenario(
        prepare=lambda api: give_budget(api.user), act=post, ends_as="queued", by_client=True
    ),
    "accept, first": Scenario(prepare=lambda _: None, act=post, ends_as="queued", by_client=True),
    "replay": Scenario(prepare=queued, act=post, ends_as="queued", by_client=True),
    "run, succeeds": Scenario(prepare=queued, act=run, ends_as="succeeded"),
    "run, fails": Scenario(
        prepare=queued,
        act=run,
        ends_as=failed(ErrorCode.PROVIDER_5XX),
        answers=(REFUSAL,),
        since=ANSWERED,
    ),
    "run, streams": Scenario(
        prepare=queued, act=run, ends_as="succeeded", answers=(STREAM,), since=ANSWERED
    ),
    "run, stream cut": Scenario(
        prepare=queued,
        act=run,
        ends_as=failed(ErrorCode.PROVIDER_INVALID_RESPONSE),
        answers=(CUT,),
        since=ANSWERED,
    ),
    "run, watched": Scenario(
        prepare=watched,
        act=run,
        ends_as="succeeded",
        answers=(SEEN,),
        thread="scribe",
        last="after receive from DEL broker",
        waits_for_text=True,
    ),
    "run, put off": Scenario(
        prepare=queued,
        act=run,
        ends_as="queued",
        answers=(BUSY, TEXT),
        most_calls=2,
        since=ANSWERED,
    ),
    "run again": Scenario(prepare=running, act=run, ends_as="running"),
    "cancel queued": Scenario(
        prepare=queued, act=cancel, ends_as=failed(ErrorCode.CANCELLED), by_client=True
    ),
    "cancel running": Scenario(
        prepare=running, act=cancel, ends_as=failed(ErrorCode.CANCELLED), by_client=True
    ),
    "erase": Scenario(prepare=succeeded, act=erase, ends_as="succeeded erased", by_client=True),
    "sweep, lost": Scenario(
        prepare=abandoned, act=sweep_once, ends_as=failed(ErrorCode.WORKER_LOST)
    ),
    "sweep, expired": Scenario(
        prepare=lambda api: queued(api, age_s=settings.QUEUE_TTL_S + 1),
        act=sweep_once,
        ends_as=failed(ErrorCode.QUEUE_EXPIRED),
    ),
    "sweep, republish": Scenario(prepare=unpublished, act=sweep_once, ends_as="queued"),
    "sweep, retention": Scenario(
        prepare=lambda api: succeeded(api, age_s=(settings.RETENTION_DAYS + 1) * 86400),
        act=sweep_once,
        ends_as="succeeded erased",
    ),
    "tell": Scenario(prepare=ended, act=tell, ends_as="succeeded; delivered", receiver=(TAKEN,)),
    "tell, put off": Scenario(
        prepare=noted,
        act=tell,
        ends_as="succeeded; pending",
        receiver=(NOT_NOW, TAKEN),
        since=RECEIVED,
    ),
    "tell, gone": Scenario(
        prepare=noted,
        act=tell,
        ends_as="succeeded; failed",
        receiver=(GONE,),
        since=RECEIVED,
    ),
}
