"""Metadata, a queue limit of one's own, and windows of time in the list."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as configured
from django.db.models.functions import Now

from openapi import schemas
from reports import invariants, sweep, transitions, wishes
from reports.errors import ErrorCode, InvalidRequest
from reports.models import ReportJob
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import ESTIMATE, budget, job_in, row
from tests.test_openapi import checker

if TYPE_CHECKING:
    from django.http import HttpResponse

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
LABELS = {"order": "A-17", "ä \N{GRINNING FACE}": "", "n" * 64: "v" * 512}
LATE = timedelta(seconds=-1)


def post(api: Api, key: str = "key-1", **members: object) -> HttpResponse:
    """POST /reports with members beside the prompt."""
    return api.post_raw(json.dumps({"prompt": "hello", **members}).encode(), key=key)


def test_metadata_come_back_wherever_the_job_is_shown(ada: Api):
    job_id = body_of(post(ada, metadata=LABELS))["job_id"]

    assert body_of(ada.get(f"/reports/{job_id}"))["metadata"] == LABELS
    assert body_of(ada.get("/reports"))["results"][0]["metadata"] == LABELS
    cancelled = ada.request("POST", f"/reports/{job_id}/cancel")
    assert body_of(cancelled)["metadata"] == LABELS
    checker(schemas.ref("Job")).validate(body_of(cancelled))


@pytest.mark.parametrize("members", [{}, {"metadata": None, "expires_in_s": None}])
def test_a_job_without_wishes_says_nothing_of_them(ada: Api, members: dict[str, Any]):
    job_id = body_of(post(ada, **members))["job_id"]

    assert {"metadata", "expires_at", "again_of"}.isdisjoint(body_of(ada.get(f"/reports/{job_id}")))


def test_sixteen_pairs_are_taken(ada: Api):
    pairs = {f"name {number}": str(number) for number in range(16)}

    assert post(ada, metadata=pairs).status_code == 202
    assert ReportJob.objects.get().metadata == pairs


BAD_METADATA = [
    *([], "text", 7, True, [["a", "b"]]),
    *({"a": 1}, {"a": None}, {"a": {}}, {"a": ["b"]}, {"": "a"}, {"n" * 65: "a"}),
    *({"a": "v" * 513}, {"a\x00": "b"}, {"a": "\x00"}),
    {str(number): "" for number in range(17)},
]


@pytest.mark.parametrize("metadata", [*BAD_METADATA, {"a": "\ud800"}, {"\udfff": "a"}])
def test_other_metadata_are_refused(ada: Api, metadata: object):
    with assert_nothing_written():
        response = post(ada, metadata=metadata)

    errors = assert_problem(response, 400, "invalid_request")["errors"]
    assert list(errors) == ["metadata"]


@pytest.mark.parametrize("metadata", [*BAD_METADATA, LABELS, {}, None])
def test_the_document_says_of_metadata_what_the_parser_does(metadata: object):
    try:
        is_good = wishes.validate_metadata(metadata) == (metadata or {})
    except InvalidRequest:
        is_good = False

    body = {"prompt": "a", "metadata": metadata}
    assert checker(schemas.ref("Prompt")).is_valid(body) is is_good


def test_a_replay_has_the_metadata_and_the_limit_of_the_first(ada: Api):
    post(ada, metadata={"a": "1"}, expires_in_s=60)
    before = row(ReportJob.objects.get())

    replay = post(ada, metadata={"a": "2"}, expires_in_s=5)

    assert replay.headers["Idempotent-Replayed"] == "true"
    assert row(ReportJob.objects.get()) == before


def test_erasure_takes_the_metadata(ada: Api):
    job = job_in("succeeded", user=ada.user, metadata={"name": "Ada"})

    assert ada.request("DELETE", f"/reports/{job.pk}").status_code == 204

    assert row(job)["metadata"] == {}
    assert "Ada" not in ada.get("/reports").content.decode()


def test_no_log_line_holds_metadata(ada: Api, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("DEBUG"):
        post(ada, metadata={"zebra-name": "zebra-text"})
        post(ada, metadata={"zebra-name": 7})
        transitions.claim(ReportJob.objects.get().pk)

    assert caplog.records
    assert "zebra" not in caplog.text


def test_a_limit_is_an_instant_by_the_clock_of_the_database(ada: Api):
    job_id = body_of(post(ada, expires_in_s=60))["job_id"]

    job = ReportJob.objects.get()
    assert job.expires_at == job.created_at + timedelta(seconds=60)
    told = body_of(ada.get(f"/reports/{job_id}"))["expires_at"]
    assert datetime.fromisoformat(told) == job.expires_at


LIMITS = [(1, 1), (60, 60), (60.0, 60), (configured.QUEUE_TTL_S, int(configured.QUEUE_TTL_S))]
NO_LIMITS = [0, -1, 0.5, 60.5, True, False, "60", [], {}, configured.QUEUE_TTL_S + 1, 1e300, 10**80]


@pytest.mark.parametrize(("value", "limit_s"), LIMITS)
def test_a_limit_is_a_whole_number_up_to_the_queue_s_own(ada: Api, value: float, limit_s: int):
    post(ada, expires_in_s=value)

    job = ReportJob.objects.get()
    assert job.expires_at == job.created_at + timedelta(seconds=limit_s)
    assert checker(schemas.ref("Prompt")).is_valid({"prompt": "a", "expires_in_s": value})


@pytest.mark.parametrize("value", NO_LIMITS)
def test_another_limit_is_refused_and_not_cut(ada: Api, value: object):
    with assert_nothing_written():
        response = post(ada, expires_in_s=value)

    errors = assert_problem(response, 400, "invalid_request")["errors"]
    assert list(errors) == ["expires_in_s"]
    assert not checker(schemas.ref("Prompt")).is_valid({"prompt": "a", "expires_in_s": value})


@pytest.mark.parametrize(("left_s", "is_claimed"), [(30, True), (-1, False)])
def test_a_claim_refuses_a_job_whose_own_limit_is_over(ada: Api, left_s: int, is_claimed: bool):
    job = job_in("queued", user=ada.user, expires_at=Now() + timedelta(seconds=left_s))

    assert (transitions.claim(job.pk) is not None) is is_claimed
    assert transitions.expire(job) is not is_claimed


def test_the_sweep_expires_what_has_a_limit_of_its_own_and_gives_its_tokens_back(
    ada: Api, broker: object
):
    late = job_in("queued", user=ada.user, expires_at=Now() + LATE)
    job_in("queued", user=ada.user, expires_at=Now() + timedelta(seconds=60))
    job_in("queued", user=ada.user)
    job_in("running", user=ada.user, expires_at=Now() + LATE)

    assert sweep.sweep().expired == 1

    late.refresh_from_db()
    ended = (late.status, late.http_status, late.error_code)
    assert ended == ("failed", 503, ErrorCode.QUEUE_EXPIRED)
    assert budget(ada.user)["spent_tokens"] == 3 * ESTIMATE


@pytest.mark.parametrize(("wait_s", "is_put_off"), [(10, True), (40, False)])
def test_a_second_try_is_not_put_off_beyond_the_limit(ada: Api, wait_s: int, is_put_off: bool):
    job = job_in("running", user=ada.user, expires_at=Now() + timedelta(seconds=30))

    moved = transitions.postpone(transitions.Claim.of(job), wait_s=wait_s)

    assert moved is is_put_off


def test_a_job_that_outlived_its_own_limit_is_a_fault(ada: Api):
    longest_s = configured.INFERENCE_TIMEOUT_S + configured.LEASE_GRACE_S
    longest_s += 2 * configured.SWEEP_INTERVAL_S
    within = Now() - timedelta(seconds=longest_s - 5)
    beyond = Now() - timedelta(seconds=longest_s + 5)
    job_in("queued", user=ada.user, expires_at=within)
    overdue = job_in("queued", user=ada.user, expires_at=beyond)

    assert [f.row for f in invariants.check()] == [f"job {overdue.pk} of user {ada.user_id}"]


def test_windows_side_by_side_show_each_job_once(ada: Api):
    jobs = [job_in("succeeded", user=ada.user, age_s=age_s) for age_s in (40, 30, 20, 10)]
    oldest, edge, _, newest = (job.created_at.isoformat() for job in jobs)

    first = _listed(ada, created_after=oldest, created_before=edge)
    second = _listed(ada, created_after=edge, created_before=newest)
    third = _listed(ada, created_after=newest)

    ids = [str(job.pk) for job in jobs]
    assert (first, second, third) == (ids[:1], [ids[2], ids[1]], ids[3:])


def test_the_pages_of_a_window_stay_in_it(ada: Api):
    for age_s in range(45):
        job_in("succeeded", user=ada.user, age_s=age_s)
    edge = ReportJob.objects.order_by("-created_at")[29].created_at

    query = urlencode({"created_after": edge.isoformat(), "status": "succeeded"})
    first = body_of(ada.get(f"/reports?{query}"))
    second = body_of(ada.get(first["next"]))

    assert [len(page["results"]) for page in (first, second)] == [20, 10]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-30", "2026-11-30T00:00:00+00:00"),
        ("2026-11-30T08:00:00Z", "2026-11-30T08:00:00+00:00"),
        ("2026-11-30t08:00:00.25z", "2026-11-30T08:00:00.250000+00:00"),
        ("2026-11-30T08:00:00+05:30", "2026-11-30T02:30:00+00:00"),
        ("2026-11-30T08:00:00 05:30", "2026-11-30T02:30:00+00:00"),
        ("2026-11-30T08:00:00-01:00", "2026-11-30T09:00:00+00:00"),
    ],
)
def test_an_instant_is_one_of_rfc_3339_or_a_date(text: str, instant: str):
    found = wishes.validate_instant(text, name="created_after")

    assert found == datetime.fromisoformat(instant)
    assert found.tzinfo is UTC


@pytest.mark.parametrize("name", ["created_after", "created_before"])
@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "2026-02-30", "2026-11-30T08:00", "2026-11-30T08:00:00", "20261130"),
        *("2026-W48-1", "0000-01-01", "0001-01-01T00:00:00+14:00", "2026-11-30T25:00:00Z", "\x00"),
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_another_instant_is_refused(ada: Api, name: str, text: str):
    response = ada.get(f"/reports?{urlencode({name: text})}")

    assert list(assert_problem(response, 400, "invalid_request")["errors"]) == [name]


@pytest.mark.parametrize("text", ["0001-01-01", "9999-12-31T23:59:59Z"])
def test_the_ends_of_time_are_instants(ada: Api, text: str):
    assert ada.get(f"/reports?{urlencode({'created_before': text})}").status_code == 200


def _listed(api: Api, **query: str) -> list[str]:
    page = body_of(api.get(f"/reports?{urlencode(query)}"))
    return [job["job_id"] for job in page["results"]]
