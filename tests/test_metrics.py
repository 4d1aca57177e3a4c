"""GET /metrics: what is counted, over all processes, also while a part is away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import redis
from django.db import OperationalError
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from reports import census, dispatch, runner, sweep, transitions
from reports_project import scrape
from telemetry import meters, relay
from tests.support.provider import Answer
from tests.support.rows import give_budget, job_in
from tests.support.statements import recorded
from tests.support.threads import together

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)
Numbers = dict[str, float]


@pytest.fixture(autouse=True)
def _fresh(broker: redis.Redis) -> Generator[None]:
    """No number of before, here or on the broker."""
    relay.hand_over()
    broker.delete(relay.NUMBERS, relay.PROCESSES)
    scrape.forget()
    yield
    scrape.forget()


def numbers(path: str = "/metrics") -> Numbers:
    """What the endpoint says now, by name and labels as Prometheus writes them."""
    scrape.forget()
    answer = Client().get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    found: Numbers = {}
    for family in text_string_to_metric_families(answer.content.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{word}"' for name, word in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def numbers_here(name: str) -> float:
    """What this process has counted since its start."""
    number = meters.registry.get_sample_value(name)
    assert number is not None
    return number


@pytest.mark.parametrize("path", ["/metrics", "/metrics/"])
def test_it_is_open_and_tells_of_every_part(path: str):
    found = numbers(path)

    assert found['reports_up{part="database"}'] == 1
    assert found['reports_up{part="broker"}'] == 1
    assert found['reports_up{part="worker"}'] in {0, 1}


def test_nobody_writes_to_it():
    answer = Client().post("/metrics")

    assert answer.status_code == 405


def test_what_has_not_happened_yet_is_told_as_0():
    found = numbers()

    assert found['reports_refusals_total{code="budget_exhausted"}'] == 0
    assert found['reports_ends_total{code="worker_lost",status="failed"}'] == 0
    assert found['reports_unclear_ends_total{code="provider_timeout"}'] == 0
    assert found['reports_publishes_total{outcome="not_taken"}'] == 0


def test_jobs_that_wait_and_run_are_counted_by_the_database(ada: Api):
    job_in("queued", user=ada.user, age_s=120)
    job_in("queued", user=ada.user)
    job_in("running", user=ada.user, age_s=600)
    job_in("succeeded", user=ada.user, age_s=3600)

    found = numbers()

    assert found['reports_jobs{status="queued"}'] == 2
    assert found['reports_jobs{status="running"}'] == 1
    assert found["reports_overdue"] == 1
    assert found["reports_oldest_queued_seconds"] == pytest.approx(120, abs=10)
    assert found["reports_oldest_text_seconds"] == pytest.approx(3600, abs=10)


def test_without_jobs_nothing_is_old():
    assert census.take() == census.Census(0, 0, 0, 0.0, 0.0)


def test_a_job_is_counted_from_its_accept_to_its_end(ada: Api, provider: Provider):
    usage = b'{"text": "hi", "usage": {"prompt_tokens": 3, "completion_tokens": 5}}'
    provider.script(Answer(body=usage))
    job_id = ada.post(key="one").json()["job_id"]  # type: ignore[attr-defined]
    ada.post(key="one")

    runner.run(job_id)

    found = numbers()
    assert found['reports_accepts_total{kind="new"}'] == 1
    assert found['reports_accepts_total{kind="replay"}'] == 1
    assert found['reports_ends_total{code="",status="succeeded"}'] == 1
    assert found["reports_claim_seconds_count"] == 1
    assert found['reports_claim_seconds_bucket{le="3600.0"}'] == 1
    assert found['reports_provider_seconds_count{outcome="succeeded"}'] == 1
    assert found['reports_tokens_total{kind="prompt"}'] == 3
    assert found['reports_tokens_total{kind="completion"}'] == 5


@pytest.mark.parametrize(
    ("code", "answer", "is_unclear"),
    [
        ("provider_5xx", Answer(status=500), None),
        ("provider_5xx", Answer(status=503, headers={"Retry-After": "1"}), None),
        ("provider_rejected", Answer(status=400), None),
        ("provider_invalid_response", Answer(body=b"junk"), 1),
        ("provider_unreachable", Answer(reset_after=0), 1),
    ],
)
def test_a_failure_that_may_be_billed_is_counted_as_unclear(
    ada: Api, provider: Provider, code: str, answer: Answer, is_unclear: int | None
):
    provider.script(answer)

    runner.run(job_in("queued", user=ada.user).pk)

    found = numbers()
    assert found[f'reports_ends_total{{code="{code}",status="failed"}}'] == 1
    assert found.get(f'reports_unclear_ends_total{{code="{code}"}}') == is_unclear
    assert found[f'reports_provider_seconds_count{{outcome="{code}"}}'] == 1


def test_a_cancelled_job_keeps_its_reservation_and_is_not_unclear(ada: Api):
    transitions.cancel(job_in("running", user=ada.user))

    found = numbers()
    assert found['reports_ends_total{code="cancelled",status="failed"}'] == 1
    assert sum(found[name] for name in found if name.startswith("reports_unclear_ends")) == 0


def test_refusals_for_a_budget_are_counted_by_code(ada: Api):
    give_budget(ada.user, daily_tokens=10, spent_tokens=10)

    ada.post()

    assert numbers()['reports_refusals_total{code="budget_exhausted"}'] == 1


def test_what_the_sweep_did_is_counted(ada: Api):
    job_in("running", user=ada.user, age_s=600)
    job_in("succeeded", user=ada.user, age_s=31 * 86400)

    sweep.sweep()

    found = numbers()
    assert found['reports_swept_total{what="lost"}'] == 1
    assert found['reports_swept_total{what="erased"}'] == 1
    assert found["reports_sweep_seconds_count"] == 1
    assert found['reports_unclear_ends_total{code="worker_lost"}'] == 1


def test_publishing_is_counted_by_its_outcome(ada: Api, monkeypatch: pytest.MonkeyPatch):
    job = job_in("queued", user=ada.user)
    dispatch.publish(job.pk)
    monkeypatch.setattr(
        dispatch.Publisher, "_connect", lambda _: (_ for _ in ()).throw(redis.ConnectionError)
    )
    dispatch.publish(job.pk)

    found = numbers()

    assert found['reports_publishes_total{outcome="taken"}'] == 1
    assert found['reports_publishes_total{outcome="not_taken"}'] == 1


def test_requests_are_timed_by_the_name_of_their_route(ada: Api):
    job = job_in("succeeded", user=ada.user)
    ada.get(f"/reports/{job.pk}")
    ada.get("/reports/none")
    ada.request("BREW", "/budget")
    Client().get("/nowhere")

    found = numbers()

    counted = {
        name: found[name] for name in found if name.startswith("reports_http_request_seconds_count")
    }
    start = "reports_http_request_seconds_count"
    assert counted.pop(f'{start}{{method="GET",route="report-detail",status="2xx"}}') == 1
    assert counted.pop(f'{start}{{method="GET",route="report-detail",status="4xx"}}') == 1
    assert counted.pop(f'{start}{{method="other",route="budget",status="4xx"}}') == 1
    assert counted.pop(f'{start}{{method="GET",route="none",status="4xx"}}') == 1
    assert set(counted.values()) <= {0}


def test_the_numbers_of_other_processes_are_in_the_sum(ada: Api, broker: redis.Redis):
    """Each process adds to one hash; here five relays stand for five processes."""
    meters.dropped_outcomes.inc()
    each = numbers_here("reports_dropped_outcomes_total")
    others = [relay.Relay() for _ in range(5)]
    here = relay.hand_over()

    taken = together(
        lambda other: other.hand_over({"role": "worker", "calls_in_flight": 2}), others
    )

    found = numbers()
    assert here
    assert taken == [True] * 5
    assert found["reports_dropped_outcomes_total"] == 1 + 5 * each
    assert found["reports_calls_in_flight"] == 2  # one pid, told five times
    assert found['reports_processes{role="worker"}'] == 1


def test_a_process_that_died_is_told_of_no_more(broker: redis.Redis):
    relay.Relay().hand_over({"role": "worker", "calls_in_flight": 2})
    broker.delete(*broker.keys(f"{relay.PROCESS}*"))

    found = numbers()

    assert found["reports_calls_in_flight"] == 0
    assert broker.scard(relay.PROCESSES) == 0


def test_what_a_broker_that_is_away_does_not_take_is_told_later(monkeypatch: pytest.MonkeyPatch):
    def away(*_: object, **__: object) -> None:
        raise redis.ConnectionError

    meters.dropped_outcomes.inc()
    with monkeypatch.context() as patch:
        patch.setattr(relay.Relay, "_send", away)
        assert not relay.hand_over()

    assert numbers()["reports_dropped_outcomes_total"] == 1


def test_without_a_broker_the_rest_is_told(monkeypatch: pytest.MonkeyPatch, ada: Api):
    job_in("queued", user=ada.user)
    monkeypatch.setattr(relay, "broker", lambda: redis.Redis(port=1))

    found = numbers()

    assert found['reports_up{part="broker"}'] == 0
    assert found['reports_up{part="database"}'] == 1
    assert found['reports_jobs{status="queued"}'] == 1
    assert not any(name.startswith("reports_ends") for name in found)


def test_without_a_database_the_rest_is_told(monkeypatch: pytest.MonkeyPatch):
    def away() -> None:
        raise OperationalError

    monkeypatch.setattr(census, "take", away)

    found = numbers()

    assert found['reports_up{part="database"}'] == 0
    assert found['reports_up{part="broker"}'] == 1
    assert 'reports_ends_total{code="",status="succeeded"}' in found
    assert not any(name.startswith("reports_jobs") for name in found)


def test_two_scrapes_within_a_second_ask_once(ada: Api):
    scrape.text()

    with recorded() as statements:
        Client().get("/metrics")

    assert statements == []
