"""Traces: one a job, worked out from its id on either side of the queue; nothing while off."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest.mock import patch
from uuid import UUID

import pytest

from reports import dispatch, runner
from telemetry import otel, traces
from tests.support import collector as collectors, processes
from tests.support.provider import Answer, Provider
from tests.support.rows import job_in
from tests.test_env import complaint, settings_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from pytest_django import Settings

    from tests.support.clients import Api
    from tests.support.collector import Collector

OFF = """
import sys
import reports_project.asgi, reports.tasks
from telemetry import traces
traces.start("worker")
assert traces.now() == 0
ours = "telemetry.otel", "opentelemetry.exporter", "opentelemetry.sdk.trace"  # redis has its own
print([name for name in sys.modules if name.startswith(ours)])
"""


@pytest.fixture
def collector(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[Collector]:
    """This process records, for one test."""
    with collectors.running() as taking:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = taking.url
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", taking.url)
        monkeypatch.setattr(traces, "_recorder", None)
        traces.start("web")
        yield taking
        told().close()


def told() -> otel.Exporter:
    """What records now."""
    assert isinstance(traces._recorder, otel.Exporter)
    return traces._recorder


@pytest.mark.django_db(transaction=True)
def test_accept_publish_claim_and_call_are_one_trace(
    ada: Api, provider: Provider, collector: Collector
):
    job_id = UUID(json.loads(ada.post("hello").content)["job_id"])
    assert dispatch.publish(job_id)
    runner.run(job_id)
    ada.post("hello")
    told().flush()

    spans = collector.of(job_id)

    assert set(spans) == {"accept", "publish", "claim", "call", "replay"}
    root = spans.pop("accept")
    assert root.above == 0
    assert {span.above for span in spans.values()} == {root.span_id}
    assert len({span.span_id for span in spans.values()}) == 4
    assert all(0 < span.took_ns < 60e9 for span in [root, *spans.values()])


@pytest.mark.django_db(transaction=True)
def test_a_call_that_failed_says_by_which_code(ada: Api, provider: Provider, collector: Collector):
    provider.script(Answer(status=503))
    job = job_in("queued", user=ada.user)

    runner.run(job.pk)
    told().flush()

    codes = {name: span.code for name, span in collector.of(job.pk).items()}
    assert codes == {"claim": "", "call": "provider_5xx"}


@pytest.mark.django_db(transaction=True)
def test_nothing_that_a_user_wrote_is_in_a_span(ada: Api, provider: Provider, collector: Collector):
    provider.script(Answer.of({"text": "canary-answer"}))
    job_id = UUID(json.loads(ada.post("canary-prompt", key="canary-key").content)["job_id"])
    runner.run(job_id)
    told().flush()

    assert "call" in collector.of(job_id)
    assert b"canary" not in b"".join(collector.raw)
    assert ada.token[8:24].encode() not in b"".join(collector.raw)


def test_while_off_nothing_of_it_is_imported():
    done = subprocess.run(
        [sys.executable, "-c", OFF],
        check=True,
        cwd=processes.ROOT,
        env=processes.environment(DATABASE_URL="sqlite:///:memory:"),
        capture_output=True,
        text=True,
    )

    assert done.stdout == "[]\n"


def test_where_it_is_not_installed_one_line_says_what_to_install():
    with patch("importlib.util.find_spec", lambda _: None):
        line = complaint(OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318")

    assert line == "OTEL_EXPORTER_OTLP_ENDPOINT: needs pip install -r requirements-otel.txt"


def test_the_endpoint_is_an_address():
    found = settings_of(OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318")

    assert found["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert complaint(OTEL_EXPORTER_OTLP_ENDPOINT="collector:4318").startswith("OTEL_EXPORTER_OTLP")
