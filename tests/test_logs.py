"""What the log says of requests, jobs and exceptions, and that it says nothing that they carry."""

from __future__ import annotations

import json
import logging
import logging.config
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Never
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection
from django.test import Client, RequestFactory

from reports import acceptance, runner, sweep, transitions
from reports.errors import ErrorCode
from reports.transitions import Claim
from telemetry import context, lines
from telemetry.crashes import Reporter
from tests.support import processes
from tests.support.provider import Answer, Provider
from tests.support.rows import job_in
from tests.test_front_door import SCOPE, answer_to, body

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pytest_django import Settings

    from reports.models import ReportJob
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
CANARY = "the prompt of a canary"
Line = dict[str, Any]


class Collected(logging.Handler):
    """Every line as the product's own formatter writes it in production."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(lines.Json())
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))

    def events(self) -> list[Line]:
        """The lines, read again, that are about an event."""
        return [line for line in map(json.loads, self.said) if "event" in line]


@pytest.fixture
def log() -> Generator[Collected]:
    """What is written during the test."""
    handler = Collected()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


def break_with_values(*_: object, **__: object) -> Never:
    raise IntegrityError(f"Failing row contains ({CANARY})")


def test_a_broken_page_is_logged_without_its_values(
    ada: Api, log: Collected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(acceptance, "accept", break_with_values)
    client = Client(raise_request_exception=False)
    client.force_login(ada.user)

    response = client.post("/", {"key": "a-key", "prompt": CANARY}, headers={"X-Request-ID": "r-1"})

    assert response.status_code == 500
    said = "\n".join(log.said)
    assert "a request broke" in said
    assert "IntegrityError" in said
    assert "break_with_values" in said
    assert CANARY not in said
    assert {json.loads(line)["request_id"] for line in log.said} == {"r-1"}


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_the_crash_page_of_development_shows_no_value(
    ada: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch, accept: str
):
    settings.DEBUG = True
    settings.INFERENCE_URL = f"http://provider/?key={CANARY}"
    monkeypatch.setattr(acceptance, "accept", break_with_values)
    client = Client(raise_request_exception=False)
    client.force_login(ada.user)
    client.cookies["note"] = CANARY
    headers = {"Idempotency-Key": CANARY, "Referer": CANARY, "Accept": accept}

    response = client.post(f"/?query={CANARY}", {"key": "a-key", "prompt": CANARY}, headers=headers)

    assert response.status_code == 500
    page = response.content.decode()
    assert CANARY not in page
    assert CANARY.rsplit(maxsplit=1)[-1] not in page
    if accept == "text/html":
        assert "IntegrityError" in page
        assert "break_with_values" in page


def test_a_mail_about_a_crash_holds_no_value():
    request = RequestFactory().post(
        "/?query=canary", {"prompt": CANARY}, headers={"Cookie": "a=canary"}
    )
    try:
        break_with_values()
    except IntegrityError as error:
        report = Reporter(request, type(error), error, error.__traceback__, is_email=True)
        mail = report.get_traceback_text() + report.get_traceback_html()

    assert "break_with_values" in mail
    assert "canary" not in mail


def test_a_job_that_cannot_be_claimed_is_logged_without_its_values(
    ada: Api, log: Collected, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(transitions, "claim", break_with_values)

    runner.run(job_in("queued", user=ada.user).pk)

    said = "\n".join(log.said)
    assert "could not be claimed" in said
    assert CANARY not in said


def test_a_task_that_celery_saw_break_is_told_by_its_type(log: Collected):
    try:
        break_with_values()
    except IntegrityError:
        told = {"name": "reports.sweep", "id": "1", "description": "raised", "exc": CANARY}
        message = "Task %(name)s[%(id)s] %(description)s: %(exc)s"
        logging.getLogger("celery.app.trace").exception(message, told, extra={"data": told})

    [line] = log.said
    assert "reports.sweep[1] raised: IntegrityError" in line
    assert CANARY not in line


def test_what_a_library_hangs_on_a_line_is_not_written(log: Collected):
    request = RequestFactory().get("/", {"query": CANARY})

    logging.getLogger("django.contrib.sessions").warning("odd", extra={"request": request})

    [line] = map(json.loads, log.said)
    assert line.pop("at").endswith("+00:00")
    assert line == {"level": "WARNING", "logger": "django.contrib.sessions", "message": "odd"}


def test_a_request_has_one_line_without_its_path_and_query(ada: Api, log: Collected):
    job = job_in("succeeded", user=ada.user)

    answer = ada.get(f"/reports/{job.pk}?note={CANARY}", X_Request_ID="from-the-proxy")

    [line] = log.events()
    assert answer.headers["X-Request-ID"] == "from-the-proxy"
    assert line["took_ms"] > 0
    told = {name: line[name] for name in ("method", "route", "status", "request_id", "job_id")}
    assert told == {
        "method": "GET",
        "route": "report-detail",
        "status": 200,
        "request_id": "from-the-proxy",
        "job_id": str(job.pk),
    }
    assert CANARY not in json.dumps(line)


@pytest.mark.parametrize("path", [f"/{CANARY}", f"/reports/{CANARY}", f"/reports/{CANARY}/cancel"])
def test_a_path_that_holds_anything_is_not_written(ada: Api, log: Collected, path: str):
    ada.request("BREW", path)

    [line] = log.events()
    assert line["method"] == "other"
    assert CANARY not in "".join(log.said)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_a_probe_is_no_news(log: Collected, path: str):
    Client().get(path)

    assert log.events() == []


@pytest.mark.parametrize("given", ["", "a b", "<script>", "a" * 65, "\u00e9", "-a", "a\tb"])
@pytest.mark.parametrize("path", ["/reports", "/login/", "/nowhere", "/healthz", "/metrics"])
def test_a_request_without_a_well_formed_id_gets_one(path: str, given: str):
    answer = Client().get(path, headers={"X-Request-ID": given})

    assert re.fullmatch("[0-9a-f]{32}", answer.headers["X-Request-ID"])


def test_the_front_door_names_its_own_answers_too(log: Collected):
    scope = {**SCOPE, "headers": [(b"x-request-id", b"from-the-proxy")]}

    start, _ = answer_to(body(b"x" * 131_073, more=False), scope=scope)
    health, _ = answer_to(scope={**scope, "path": "/healthz", "method": "GET"})

    assert dict(start["headers"])[b"x-request-id"] == b"from-the-proxy"
    assert dict(health["headers"])[b"x-request-id"] == b"from-the-proxy"
    [line] = log.events()
    assert (line["status"], line["request_id"]) == (413, "from-the-proxy")


def test_a_client_that_left_is_one_line_and_no_error(log: Collected):
    answer_to(body(b'{"prompt":'), {"type": "http.disconnect"})

    [line] = log.events()
    assert (line["level"], line["status"]) == ("INFO", 499)


def accepted(api: Api) -> UUID:
    """By a POST."""
    return UUID(json.loads(api.post(CANARY).content)["job_id"])


def replayed(api: Api) -> UUID:
    """By two."""
    accepted(api)
    return accepted(api)


def moved(status: str, move: Callable[[ReportJob], object], **how: Any) -> Callable[[Api], UUID]:
    """By a transition of a job in this state."""

    def act(api: Api) -> UUID:
        job = job_in(status, user=api.user, prompt=CANARY, **how)
        move(job)
        return job.pk

    return act


def broken_off(job: ReportJob) -> None:
    transitions.break_off(Claim.of(job), ErrorCode.INTERNAL_ERROR)


@pytest.mark.usefixtures("broker")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("event", "code", "act"),
    [
        ("accepted", None, accepted),
        ("replayed", None, replayed),
        ("claimed", None, moved("queued", lambda job: transitions.claim(job.pk))),
        ("failed", "internal_error", moved("running", broken_off)),
        ("lost", "worker_lost", moved("running", transitions.give_up)),
        ("cancelled", "cancelled", moved("queued", transitions.cancel)),
        ("expired", "queue_expired", moved("queued", lambda _: sweep.sweep(), age_s=90_000)),
        ("republished", None, moved("queued", lambda _: sweep.sweep(), age_s=60)),
        ("erased", None, moved("succeeded", transitions.erase)),
    ],
)
def test_a_transition_has_one_line(
    ada: Api, log: Collected, event: str, code: str | None, act: Callable[[Api], UUID]
):
    job_id = act(ada)

    [line] = [line for line in log.events() if line["event"] == event]
    assert line["job_id"] == str(job_id)
    assert line.get("code") == code
    assert line["logger"] == "reports.jobs"
    assert CANARY not in "".join(log.said)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("answer", "events"),
    [
        (Answer(), ["claimed", "succeeded"]),
        (Answer(status=503), ["claimed", "failed"]),
    ],
)
def test_a_run_is_told_from_claim_to_end(
    ada: Api, log: Collected, provider: Provider, answer: Answer, events: list[str]
):
    provider.script(answer)
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)

    assert [line["event"] for line in log.events()] == events
    assert {json.loads(line)["job_id"] for line in log.said} == {str(job.pk)}
    assert context.job_id.get() == ""


def test_a_line_for_a_person_names_the_request_and_the_job():
    record = logging.makeLogRecord({"levelname": "INFO", "name": "reports", "msg": "as it is"})
    job_id = uuid4()

    with context.at_work_for(request="r-1", job=job_id):
        line = lines.Pretty().format(record)

    assert line.endswith(f"INFO    reports as it is (request r-1, job {job_id})")
    assert lines.Pretty().format(record).endswith("as it is")


def test_at_debug_no_statement_and_no_url_is_written(settings: Settings, ada: Api):
    """Libraries say them below INFO; only our own loggers and Celery's go there."""
    settings.DEBUG = True  # Django logs statements only then
    handler = Collected()
    configuration = lines.configuration("json", "DEBUG")
    levels = {name: logger["level"] for name, logger in configuration["loggers"].items()}

    assert levels["reports"] == levels["celery"] == "DEBUG"
    assert configuration["root"]["level"] == "INFO"
    try:
        logging.config.dictConfig(configuration)
        logging.getLogger().addHandler(handler)
        with connection.cursor() as cursor:
            cursor.execute("SELECT %s", [CANARY])
        logging.getLogger("urllib3.connectionpool").debug("%s", CANARY)
        logging.getLogger("reports").debug("said")
    finally:
        logging.getLogger().removeHandler(handler)
        logging.config.dictConfig(settings.LOGGING)

    assert [json.loads(line)["message"] for line in handler.said] == ["said"]


def test_the_report_of_celery_shows_no_secret():
    secrets = {
        "SECRET_KEY": f"{CANARY}, long enough for a start in production",
        "INFERENCE_KEY": "the-key-of-a-canary",
        "INFERENCE_URL": "http://provider.example/?key=canary",
        "DATABASE_URL": "postgres://reports:canary@db.example/reports",
        "REDIS_URL": "redis://:canary@broker.example/0",
    }
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "reports_project", "report"],
        check=True,
        cwd=processes.ROOT,
        env=processes.environment() | secrets,
        capture_output=True,
        text=True,
    )

    assert "broker.example" in done.stdout
    assert "canary" not in done.stdout + done.stderr
