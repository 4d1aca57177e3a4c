"""Reading, listing, cancelling and erasing jobs: whole answers, and nothing of anybody else."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.urls import reverse

from reports import acceptance
from reports.models import COUNTED_AHEAD, ReportJob, Status
from tests.support.expect import (
    assert_nothing_written,
    assert_problem,
    assert_unchanged,
    body_of,
)
from tests.support.rows import ESTIMATE, budget, job_in

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import HttpResponse
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
OF_STATUS: dict[str, dict[str, object]] = {
    "queued": {"http_status": None, "usage": None, "jobs_ahead": 0},
    "running": {"http_status": None, "usage": None},
    "succeeded": {
        "http_status": 200,
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        "text": "a text",
        "finish_reason": "stop",
    },
    "failed": {
        "http_status": 503,
        "usage": None,
        "error_code": "provider_5xx",
        "error_detail": "It answered 503.",
    },
}
TEXTS = ("text", "finish_reason", "error_detail", "jobs_ahead")
ELSEWHERE = (
    "00000000-0000-4000-8000-000000000000",
    "no-id",
    "1",
    "%00",
    "%ff%fe",
    "..%2f..%2fadmin%2f",
    "' OR 1=1 --",
    "x" * 2000,
)


def instant(moment: datetime | None) -> str | None:
    """As the API writes it."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z") if moment else None


def expected(job: ReportJob) -> dict[str, object]:
    """The whole document of a job of the builder."""
    return {
        "job_id": str(job.pk),
        "status": job.status,
        "created_at": instant(job.created_at),
        "updated_at": instant(job.updated_at),
        "started_at": instant(job.started_at),
        "finished_at": instant(job.finished_at),
        "token_estimate": ESTIMATE,
        **OF_STATUS[job.status],
    }


def seen(response: HttpResponse) -> tuple[int, dict[str, str], bytes]:
    """Everything that a client gets: status, headers and body; but each request's own name."""
    headers = {name: value for name, value in response.headers.items() if name != "X-Request-ID"}
    return response.status_code, headers, response.content


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("status", Status.values)
def test_a_job_is_told_whole(ada: Api, status: str, slash: str):
    job = job_in(status, user=ada.user)

    with assert_nothing_written():
        response = ada.get(f"/reports/{job.pk}{slash}")

    assert response.status_code == 200
    assert body_of(response) == expected(job)
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert re.fullmatch(r'"[0-9a-f]{32}"', response.headers["ETag"])
    assert ("Retry-After" in response.headers) is (status in {"queued", "running"})


@pytest.mark.parametrize(
    ("age_s", "retry_after"), [(0, "1"), (15, "1"), (55, "5"), (100_000, "10")]
)
def test_the_older_a_job_the_rarer_its_polls(ada: Api, age_s: int, retry_after: str):
    job = job_in("running", user=ada.user, age_s=age_s)

    assert ada.get(f"/reports/{job.pk}").headers["Retry-After"] == retry_after


def test_an_id_is_read_in_any_case(ada: Api):
    job = job_in("queued", user=ada.user)

    assert ada.get(f"/reports/{str(job.pk).upper()}").status_code == 200


def test_a_success_without_a_reason_or_usage_tells_null(ada: Api):
    job = job_in(
        "succeeded", user=ada.user, finish_reason="", prompt_tokens=None, completion_tokens=None
    )

    told = body_of(ada.get(f"/reports/{job.pk}"))

    assert told["finish_reason"] is None
    assert told["usage"] is None


def test_a_text_is_told_exactly_as_it_came(ada: Api):
    text = "<script>alert(1)</script>\r\n\ufeff \N{GRINNING FACE} \u202e"
    job = job_in("succeeded", user=ada.user, result_text=text)

    assert body_of(ada.get(f"/reports/{job.pk}"))["text"] == text


def test_jobs_ahead_are_all_older_queued_jobs(ada: Api, bob: Api):
    for age_s in (40, 30, 10):
        job_in("queued", user=bob.user, age_s=age_s)
    for status in ("running", "succeeded", "failed"):
        job_in(status, user=bob.user, age_s=50)
    job = job_in("queued", user=ada.user, age_s=20)

    assert body_of(ada.get(f"/reports/{job.pk}"))["jobs_ahead"] == 2


def test_jobs_ahead_are_counted_to_a_thousand(ada: Api, bob: Api):
    job = job_in("queued", user=ada.user)
    ReportJob.objects.bulk_create(
        ReportJob(
            user=bob.user,
            idempotency_key=f"many-{number}",
            prompt="many",
            token_estimate=1,
            created_at=job.created_at - timedelta(seconds=number),
        )
        for number in range(1, COUNTED_AHEAD + 5)
    )

    assert body_of(ada.get(f"/reports/{job.pk}"))["jobs_ahead"] == 1000


@pytest.mark.parametrize("known", ["{}", "W/{}", '"other", {}', '"other",W/{} , "more"', "*"])
def test_a_known_state_is_not_told_again(ada: Api, known: str):
    job = job_in("running", user=ada.user)
    etag = ada.get(f"/reports/{job.pk}").headers["ETag"]

    response = ada.get(f"/reports/{job.pk}", If_None_Match=known.format(etag))

    assert response.status_code == 304
    assert response.content == b""
    assert response.headers["ETag"] == etag
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert response.headers["Retry-After"] == "1"


@pytest.mark.parametrize("known", ["", '"other"', "other", "W/", '"', "\u00ff"])
def test_an_unknown_tag_gets_the_job(ada: Api, known: str):
    job = job_in("running", user=ada.user)

    assert ada.get(f"/reports/{job.pk}", If_None_Match=known).status_code == 200


def test_the_tag_changes_with_the_job(ada: Api):
    job = job_in("queued", user=ada.user)
    path = f"/reports/{job.pk}"
    first = ada.get(path).headers["ETag"]
    assert ada.get(path).headers["ETag"] == first

    job_in("queued", user=ada.user, age_s=10)
    with_one_ahead = ada.get(path).headers["ETag"]
    ada.request("POST", f"{path}/cancel")
    cancelled = ada.get(path).headers["ETag"]

    assert len({first, with_one_ahead, cancelled}) == 3


def test_head_tells_the_headers_of_get(ada: Api):
    job = job_in("running", user=ada.user)

    head = ada.request("HEAD", f"/reports/{job.pk}")

    assert head.content == b""
    told = ada.get(f"/reports/{job.pk}")
    assert seen(head)[1] == seen(told)[1]


@pytest.mark.parametrize(
    ("method", "suffix"), [("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/")]
)
def test_what_is_not_yours_does_not_exist_byte_for_byte(
    ada: Api, bob: Api, method: str, suffix: str
):
    theirs = [str(job_in(status, user=bob.user).pk) for status in Status.values]
    own_shape = seen(ada.request(method, f"/reports/{uuid4()}{suffix}"))

    with assert_nothing_written():
        answers = [
            seen(ada.request(method, f"/reports/{job_id}{suffix}"))
            for job_id in (*theirs, *ELSEWHERE)
        ]

    assert own_shape[0] == 404
    assert answers == [own_shape] * len(answers)


def test_the_404_is_a_problem(ada: Api):
    assert assert_problem(ada.get("/reports/none"), 404, "not_found") == {}


def test_an_erased_job_of_another_is_not_found(ada: Api, bob: Api):
    job = job_in("succeeded", user=bob.user)
    bob.request("DELETE", f"/reports/{job.pk}")

    assert_problem(ada.get(f"/reports/{job.pk}"), 404, "not_found")
    assert_problem(ada.request("DELETE", f"/reports/{job.pk}"), 404, "not_found")


@pytest.mark.parametrize("suffix", ["%0a", "%20", "%00", ".json", "-"])
def test_an_id_with_something_after_it_is_none(ada: Api, suffix: str):
    job = job_in("queued", user=ada.user)

    assert_problem(ada.get(f"/reports/{job.pk}{suffix}"), 404, "not_found")


@pytest.mark.parametrize("path", ["/reports%0a", "/budget%0a", "/reports//"])
def test_a_path_that_is_almost_one_is_none(ada: Api, path: str):
    assert_problem(ada.get(path), 404, "not_found")


def test_an_id_in_another_notation_is_none(ada: Api):
    job = job_in("queued", user=ada.user)

    for written in (job.pk.hex, f"{{{job.pk}}}", f"urn:uuid:{job.pk}"):
        assert_problem(ada.get(f"/reports/{written}"), 404, "not_found")


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_erasing_is_for_good_and_can_be_repeated(ada: Api, status: str, slash: str):
    job = job_in(status, user=ada.user)
    before = budget(ada.user)

    first = ada.request("DELETE", f"/reports/{job.pk}{slash}")
    again = ada.request("DELETE", f"/reports/{job.pk}{slash}")

    assert (first.status_code, first.content) == (204, b"")
    assert (again.status_code, again.content) == (204, b"")
    job.refresh_from_db()
    assert (job.prompt, job.result_text, job.error_detail) == ("", "", "")
    assert job.status == status
    assert budget(ada.user) == before
    assert assert_problem(ada.get(f"/reports/{job.pk}"), 410, "erased") == {}


@pytest.mark.parametrize("status", ["queued", "running"])
def test_an_active_job_cannot_be_erased(ada: Api, status: str):
    job = job_in(status, user=ada.user)

    with assert_unchanged(job):
        response = ada.request("DELETE", f"/reports/{job.pk}")

    assert assert_problem(response, 409, "job_active") == {}
    assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(("status", "kept"), [("queued", 0), ("running", ESTIMATE)])
def test_cancelling_answers_with_the_job_and_can_be_repeated(
    ada: Api, status: str, kept: int, slash: str
):
    job = job_in(status, user=ada.user)

    first = ada.request("POST", f"/reports/{job.pk}/cancel{slash}")
    again = ada.request("POST", f"/reports/{job.pk}/cancel{slash}")

    job.refresh_from_db()
    assert first.status_code == 200
    assert body_of(first) == expected(job) | {
        "http_status": 499,
        "error_code": "cancelled",
        "error_detail": "Cancelled.",
    }
    assert first.headers["Cache-Control"] == "private, no-cache"
    assert seen(again) == seen(first)
    assert budget(ada.user)["spent_tokens"] == kept
    assert budget(ada.user)["active_jobs"] == 0


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_a_job_that_ended_otherwise_cannot_be_cancelled(ada: Api, status: str):
    job = job_in(status, user=ada.user)

    with assert_unchanged(job):
        response = ada.request("POST", f"/reports/{job.pk}/cancel")

    assert assert_problem(response, 409, "job_finished") == {}
    assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("body", [b"", b"{}", b"not json", b"x" * 200_000])
def test_a_cancel_reads_no_body(ada: Api, body: bytes):
    job = job_in("queued", user=ada.user)

    response = ada.request(
        "POST", f"/reports/{job.pk}/cancel", data=body, content_type="text/plain"
    )

    assert response.status_code == 200


@pytest.mark.parametrize(
    ("path", "methods", "allowed"),
    [
        ("/reports/{}", ["POST", "PUT", "PATCH"], "GET, DELETE, HEAD, OPTIONS"),
        ("/reports/{}/cancel", ["GET", "PUT", "DELETE"], "POST, OPTIONS"),
    ],
)
def test_another_method_is_not_allowed(ada: Api, path: str, methods: list[str], allowed: str):
    job = job_in("queued", user=ada.user)

    for method in methods:
        with assert_unchanged(job):
            response = ada.request(method, path.format(job.pk))
        assert assert_problem(response, 405, "method_not_allowed") == {}
        assert response.headers["Allow"] == allowed


def listed(response: HttpResponse) -> list[str]:
    """The ids on a page."""
    assert response.status_code == 200, response.content
    return [job["job_id"] for job in body_of(response)["results"]]


@pytest.mark.parametrize("path", ["/reports", "/reports/"])
def test_the_list_tells_own_jobs_newest_first_without_texts(ada: Api, bob: Api, path: str):
    jobs = [job_in(status, user=ada.user, age_s=age) for age, status in enumerate(Status.values)]
    job_in("queued", user=bob.user)

    response = ada.get(path)

    without_texts = [
        {name: value for name, value in expected(job).items() if name not in TEXTS} for job in jobs
    ]
    assert body_of(response) == {"next": None, "previous": None, "results": without_texts}
    assert response.headers["Cache-Control"] == "private, no-cache"
    assert reverse("report-list") == "/reports"


def test_the_list_of_a_new_user_is_empty(ada: Api):
    assert body_of(ada.get("/reports")) == {"next": None, "previous": None, "results": []}


@pytest.mark.parametrize("status", Status.values)
def test_the_list_can_be_filtered_by_status(ada: Api, status: str):
    jobs = {name: job_in(name, user=ada.user) for name in Status.values}

    assert listed(ada.get(f"/reports?status={status}")) == [str(jobs[status].pk)]


@pytest.mark.parametrize("status", ["", "done", "QUEUED", "queued,failed", "%00"])
def test_an_unknown_status_is_refused(ada: Api, status: str):
    members = assert_problem(ada.get(f"/reports?status={status}"), 400, "invalid_request")

    assert members == {
        "errors": {"status": ["The status is one of queued, running, succeeded, failed."]}
    }


def test_the_pages_of_a_list_do_not_shift(ada: Api):
    # Fifteen at the same instant: neither a page of equal times nor a new job may move the rest.
    same = job_in("succeeded", user=ada.user, age_s=100).created_at
    for _ in range(14):
        job_in("succeeded", user=ada.user, created_at=same)
    for age_s in range(101, 131):
        job_in("succeeded", user=ada.user, age_s=age_s)
    newest_first = [
        str(job.pk) for job in ReportJob.objects.order_by("-created_at", "-id").only("pk")
    ]

    pages = []
    url: str | None = "/reports?status=succeeded"
    while url is not None:
        page = ada.get(url)
        pages.append(listed(page))
        url = body_of(page)["next"]
        job_in("succeeded", user=ada.user)

    assert [len(page) for page in pages] == [20, 20, 5]
    assert [job_id for page in pages for job_id in page] == newest_first


def test_a_list_can_be_walked_back(ada: Api):
    for age_s in range(30):
        job_in("succeeded", user=ada.user, age_s=age_s)
    first = ada.get("/reports")
    second = ada.get(body_of(first)["next"])

    back: dict[str, Any] = body_of(ada.get(body_of(second)["previous"]))

    assert back["results"] == body_of(first)["results"]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "x", "%00", "%ff", "cD0y", "cD1ub3RpbWU=", "cD0yMDI2LTk5LTk5", "bz0tMQ=="),
        *(
            "-",
            ".",
            "0",
            "0.",
            "--1.0",
            "1.0%0A",
            "%201.0",
            "1.-1",
            "1.10000",
            "1%2C0",
            "%EF%BC%91.0",
        ),
        *("99999999999999999.0", "1.0.0", "1e3.0"),
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(ada: Api, cursor: str):
    job_in("succeeded", user=ada.user)

    response = ada.get(f"/reports?cursor={cursor}")

    assert list(assert_problem(response, 400, "invalid_request")["errors"]) == ["cursor"]


@pytest.mark.parametrize(
    ("cursor", "shown"),
    [
        (".0", 2),
        ("-.0", 2),
        (".1", 1),
        (".9999", 0),
        ("0.0", 0),
        ("-0.0", 2),
        ("9999999999999999.0", 2),
        ("-9999999999999999.0", 0),
    ],
)
def test_every_cursor_of_the_documented_form_is_a_place_in_the_list(
    ada: Api, cursor: str, shown: int
):
    jobs = [job_in("succeeded", user=ada.user, age_s=age_s) for age_s in (1, 2)]

    response = ada.get(f"/reports?cursor={cursor}")

    assert response.status_code == 200
    assert len(listed(response)) == shown
    assert set(listed(response)) <= {str(job.pk) for job in jobs}


def test_a_cursor_of_another_user_shows_own_jobs_only(ada: Api, bob: Api):
    for age_s in range(30):
        job_in("succeeded", user=bob.user, age_s=age_s)
    own = job_in("succeeded", user=ada.user, age_s=1000)

    assert listed(ada.get(body_of(bob.get("/reports"))["next"])) == [str(own.pk)]


def test_pages_of_accepted_jobs_share_none(ada: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 100
    for number in range(45):
        acceptance.accept(ada.user_id, key=f"page-{number}", prompt="one of many")

    listed: list[str] = []
    address = "/reports"
    while address:
        page = body_of(ada.get(address))
        listed += [job["job_id"] for job in page["results"]]
        address = (page["next"] or "").removeprefix("http://testserver")

    newest_first = ReportJob.objects.order_by("-created_at", "-pk").values_list("pk", flat=True)
    assert listed == [str(pk) for pk in newest_first]


@pytest.mark.parametrize("position", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_cursor_at_the_end_of_time_is_none_of_ours(ada: Api, position: str):
    cursor = b64encode(urlencode({"p": position}).encode()).decode()

    assert_problem(ada.get(f"/reports?{urlencode({'cursor': cursor})}"), 400, "invalid_request")
