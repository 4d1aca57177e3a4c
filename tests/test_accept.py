"""POST /reports: what is accepted, what is refused, and that a refusal leaves nothing."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

import pytest
from django.conf import settings as configured

from reports.models import ReportJob
from tests.support.expect import assert_nothing_written, assert_problem, body_of
from tests.support.rows import budget, give_budget, job_in, row, today

if TYPE_CHECKING:
    from django.http import HttpResponse
    from pytest_django import Settings

    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
CANONICAL = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
EMOJI = "\N{GRINNING FACE}"


def seconds_to_midnight() -> int:
    """By the clock of this machine."""
    now = datetime.now(UTC)
    return int((datetime.combine(now.date() + timedelta(1), time.min, UTC) - now).total_seconds())


def assert_tells_budget(response: HttpResponse, *, cap: int, left: int) -> None:
    """The two RateLimit headers of the draft, whole."""
    assert response.headers["RateLimit-Policy"] == f'"daily-tokens";q={cap};w=86400'
    found = re.fullmatch(r'"daily-tokens";r=(\d+);t=(\d+)', response.headers["RateLimit"])
    assert found is not None
    assert int(found[1]) == left
    assert int(found[2]) == pytest.approx(seconds_to_midnight(), abs=5)


def assert_key_is_free(api: Api, *, key: str = "key-1") -> None:
    """Another prompt under this key is a new job."""
    response = api.post("a prompt that was never refused", key=key)
    assert response.status_code == 202
    assert "Idempotent-Replayed" not in response.headers


def test_a_prompt_is_accepted_as_a_job(ada: Api):
    response = ada.post("What is a coat check?", key="first")

    job = ReportJob.objects.get()
    assert response.status_code == 202
    assert response.headers["Content-Type"] == "application/json"
    assert body_of(response) == {"job_id": str(job.pk), "status": "queued"}
    assert re.fullmatch(CANONICAL, str(job.pk))
    assert response.headers["Location"] == f"/reports/{job.pk}"
    assert response.headers["Retry-After"] == "1"
    assert "Idempotent-Replayed" not in response.headers
    assert_tells_budget(response, cap=100_000, left=99_995)


def test_an_accepted_job_is_one_row_and_one_reservation(ada: Api):
    ada.post("What is a coat check?", key="first")

    job = ReportJob.objects.get()
    stored = row(job)
    assert stored.pop("created_at") == stored.pop("updated_at")
    assert abs(datetime.now(UTC) - job.created_at) < timedelta(seconds=5)
    again_after = stored.pop("publish_again_at") - job.created_at  # type: ignore[operator]
    assert again_after == timedelta(seconds=configured.REDISPATCH_AFTER_S)
    assert stored == {
        "id": job.pk,
        "user_id": ada.user_id,
        "idempotency_key": "first",
        "prompt": "What is a coat check?",
        "prompt_digest": "",
        "status": "queued",
        "http_status": None,
        "result_text": "",
        "finish_reason": "",
        "error_code": "",
        "error_detail": "",
        "token_estimate": 5,
        "day_utc": today(),
        "prompt_tokens": None,
        "completion_tokens": None,
        "settled_tokens": None,
        "claim_id": None,
        "lease_expires_at": None,
        "started_at": None,
        "finished_at": None,
        "erased_at": None,
        "is_prompt_cut": False,
        "is_unclear": False,
        "republished": 0,
        "timeline": [],
        "attempts": 0,
        "try_after": None,
        "metadata": {},
        "expires_at": None,
        "again_of": None,
        "openai_request": None,
    }
    assert budget(ada.user) == {
        "user_id": ada.user_id,
        "daily_tokens": 100_000,
        "is_own": False,
        "spent_tokens": 5,
        "reserved_tokens": 5,
        "forgiven_tokens": 0,
        "active_jobs": 1,
        "day_utc": today(),
    }


def test_location_leads_to_the_job(ada: Api):
    response = ada.post("hello")

    found = ada.get(response.headers["Location"])
    assert found.status_code == 200
    assert body_of(found)["job_id"] == body_of(response)["job_id"]


@pytest.mark.parametrize("path", ["/reports", "/reports/"])
def test_a_final_slash_makes_no_difference(ada: Api, path: str):
    assert ada.post("hello", path=path).status_code == 202


@pytest.mark.parametrize(
    ("prompt", "output_limit", "estimate"),
    [
        ("a", 0, 1),
        ("a" * 7, 0, 1),
        ("a" * 8, 0, 2),
        (EMOJI * 8000, 0, 2000),
        ("a" * 8, 1024, 1026),
    ],
)
def test_the_reservation_is_a_quarter_of_the_characters_and_the_output_limit(
    ada: Api, settings: Settings, prompt: str, output_limit: int, estimate: int
):
    settings.INFERENCE_MAX_OUTPUT_TOKENS = output_limit

    ada.post(prompt)

    assert ReportJob.objects.get().token_estimate == estimate
    assert budget(ada.user)["spent_tokens"] == estimate


@pytest.mark.parametrize(
    "prompt",
    [
        "a",
        "  blanks around\t\r\n",
        "\r\nline ends\n\r",
        "Cafe\u0301 is not Caf\u00e9",
        f"{EMOJI * 8000}",
        "a" * 8000,
        "\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN} \u202eabc\u202c",
        "<script>alert(1)</script>{{ 7*7 }}{% debug %}\\u0041%s",
        "\x01\x1f\x7f\x85\ufeff\ufffe",
        "\u200b",
    ],
)
def test_a_prompt_is_kept_exactly_as_sent(ada: Api, prompt: str):
    assert ada.post(prompt).status_code == 202

    assert ReportJob.objects.get().prompt == prompt


def test_escaped_and_literal_json_are_the_same_prompt(ada: Api):
    first = ada.post_raw(b'{"prompt":"\\ud83d\\ude00 \\u00e9"}')
    again = ada.post_raw(f'{{ "prompt" : "{EMOJI} é" }}'.encode())

    assert ReportJob.objects.get().prompt == f"{EMOJI} é"
    assert body_of(first) == body_of(again)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "The prompt must be a string."),
        (123, "The prompt must be a string."),
        (1.5, "The prompt must be a string."),
        (True, "The prompt must be a string."),
        (["a"], "The prompt must be a string."),
        ({"a": 1}, "The prompt must be a string."),
        ("", "The prompt is blank. Write what you want to know."),
        (" \t\r\n ", "The prompt is blank. Write what you want to know."),
        ("\r\n\r\n", "The prompt is blank. Write what you want to know."),
        ("\u00a0\u2003\u3000", "The prompt is blank. Write what you want to know."),
        ("a" * 8001, "The prompt has 8001 characters; 8000 is the limit."),
        (EMOJI * 8001, "The prompt has 8001 characters; 8000 is the limit."),
        (" " * 8001, "The prompt has 8001 characters; 8000 is the limit."),
        (
            "a\x00b",
            "The prompt holds a NUL or half of a surrogate pair, which no text can.",
        ),
        (
            "a\ud800b",
            "The prompt holds a NUL or half of a surrogate pair, which no text can.",
        ),
        (
            "\udc00\ud800",
            "The prompt holds a NUL or half of a surrogate pair, which no text can.",
        ),
    ],
)
def test_a_prompt_that_does_not_fit_is_refused_by_name(ada: Api, value: object, why: str):
    with assert_nothing_written():
        response = ada.post(value)

    members = assert_problem(response, 400, "invalid_request")
    assert members == {"errors": {"prompt": [why]}}
    assert_key_is_free(ada)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "prompt"),
        (b'{"Prompt":"a"}', "prompt"),
        (b"", "body"),
        (b'{"prompt":"x', "body"),
        (b'{"prompt":"x"}}', "body"),
        (b"{'prompt':'x'}", "body"),
        (b'"prompt"', "body"),
        (b"[]", "body"),
        (b'[{"prompt":"a"}]', "body"),
        (b"null", "body"),
        (b"7", "body"),
        (b'{"prompt":NaN}', "body"),
        (b'{"prompt":"x","n":Infinity}', "body"),
        (b'{"prompt":"x","n":-Infinity}', "body"),
        (b'{"prompt":"x","n":' + b"9" * 5000 + b"}", "body"),
        (b'{"prompt":"caf\xe9"}', "body"),
        (b'{"prompt":"x","note":"\xff\xfe"}', "body"),
        ('{"prompt":"x"}'.encode("utf-16"), "body"),
        (b'{"prompt":"x","a":' + b"[" * 60_000 + b"]" * 60_000 + b"}", "body"),
        (b'{"prompt":"a\nb"}', "body"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused_by_name(ada: Api, body: bytes, field: str):
    with assert_nothing_written():
        response = ada.post_raw(body)

    members = assert_problem(response, 400, "invalid_request")
    assert list(members) == ["errors"]
    assert list(members["errors"]) == [field]
    [why] = members["errors"][field]
    assert why
    assert_key_is_free(ada)


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        (b'\xef\xbb\xbf{"prompt":"x"}', "x"),
        (b'{"prompt":"a","prompt":"b"}', "b"),
        (b'{"prompt":"x","n":1e400,"m":18446744073709551616}', "x"),
        (b'{"prompt":"x","__proto__":{"a":1},"constructor":1,"":2}', "x"),
    ],
)
def test_an_odd_body_that_is_json_is_accepted(ada: Api, body: bytes, prompt: str):
    assert ada.post_raw(body).status_code == 202

    assert ReportJob.objects.get().prompt == prompt


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("a", "a"),
        ("  padded\t", "padded"),
        ('"quoted"', "quoted"),
        (' "quoted" ', "quoted"),
        ('"a b"', "a b"),
        (r'"say \"hi\" \\ there"', r'say "hi" \ there'),
        ('""', None),
        ('"unclosed', '"unclosed'),
        ('unopened"', 'unopened"'),
        ('in"side', 'in"side'),
        ('"two" "strings"', '"two" "strings"'),
        (r'"bad \n escape"', r'"bad \n escape"'),
        ('"ends with a backslash\\"', '"ends with a backslash\\"'),
        ("' OR 1=1 --", "' OR 1=1 --"),
        ("two  blanks", "two  blanks"),
        ("".join(map(chr, range(0x21, 0x7F))), "".join(map(chr, range(0x21, 0x7F)))),
        ("k" * 255, "k" * 255),
        ('"' + "k" * 255 + '"', "k" * 255),
        ('"' + r"\"" * 255 + '"', '"' * 255),
        ("", None),
        (" \t ", None),
        ('" "', None),
    ],
)
def test_a_key_is_read_as_the_draft_says(ada: Api, sent: str, kept: str | None):
    response = ada.post("hello", key=sent)

    if kept is None:
        assert assert_problem(response, 400, "idempotency_key_missing") == {}
    else:
        assert response.status_code == 202
        assert ReportJob.objects.get().idempotency_key == kept


@pytest.mark.parametrize(
    "sent",
    [
        "k" * 256,
        '"' + "k" * 256 + '"',
        '"' + "k" * 255,
        "tab\tinside",
        '"tab\tinside"',
        "caf\u00e9",
        "\x00",
        "a\x00b",
        "a\x7fb",
        "\u200b".encode().decode("latin-1"),
        "\u00a0",
    ],
)
def test_a_key_that_does_not_fit_is_refused(ada: Api, sent: str):
    # A key of 255 characters whose quote never closes has 256.
    with assert_nothing_written():
        response = ada.post_raw(b'{"prompt":"hello"}', key=sent)

    assert assert_problem(response, 400, "idempotency_key_invalid") == {}


def test_a_missing_key_is_refused(ada: Api):
    with assert_nothing_written():
        response = ada.post("hello", key=None)

    assert assert_problem(response, 400, "idempotency_key_missing") == {}


def test_keys_that_differ_in_case_are_two_keys(ada: Api):
    ids = {body_of(ada.post("hello", key=key))["job_id"] for key in ("Abc", "aBC", "abc")}

    assert len(ids) == 3


def test_a_users_keys_are_her_own(ada: Api, bob: Api):
    theirs = body_of(bob.post("another", key="1"))

    response = ada.post("hello", key="1")
    assert response.status_code == 202
    assert "Idempotent-Replayed" not in response.headers
    assert body_of(response)["job_id"] != theirs["job_id"]


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/json;charset=utf8; v=1",
    ],
)
def test_json_by_any_of_its_names_is_read(ada: Api, content_type: str):
    response = ada.post_raw(b'{"prompt":"hello"}', content_type=content_type)

    assert response.status_code == 202


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/problem+json",
        "application/json-patch+json",
        "application/json; charset=utf-16",
        "application/json; charset=bogus-8",
        "application/json; charset=iso-8859-1",
        "*/*",
        "application",
        "/",
    ],
)
def test_anything_but_json_is_an_unsupported_media_type(ada: Api, content_type: str):
    with assert_nothing_written():
        response = ada.post_raw(b'{"prompt":"hello"}', content_type=content_type)

    assert assert_problem(response, 415, "unsupported_media_type") == {}
    assert_key_is_free(ada)


@pytest.mark.parametrize("path", ["/reports", "/reports/"])
def test_a_form_is_an_unsupported_media_type(ada: Api, path: str):
    with assert_nothing_written():
        response = ada.post_raw(
            b"prompt=hello", content_type="application/x-www-form-urlencoded", path=path
        )

    assert assert_problem(response, 415, "unsupported_media_type") == {}


@pytest.mark.parametrize(
    "content_type", ["", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_an_empty_body_of_another_type_is_an_unsupported_media_type(ada: Api, content_type: str):
    response = ada.post_raw(b"", content_type=content_type)

    assert assert_problem(response, 415, "unsupported_media_type") == {}


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "x-unknown"])
def test_a_compressed_body_is_an_unsupported_media_type(ada: Api, coding: str):
    with assert_nothing_written():
        response = ada.post_raw(
            gzip.compress(b'{"prompt":"hello"}'), **{"Content-Encoding": coding}
        )

    assert assert_problem(response, 415, "unsupported_media_type") == {}


@pytest.mark.parametrize("size", [128 * 1024 + 1, 1024 * 1024])
def test_a_body_over_the_limit_is_too_large(ada: Api, size: int):
    body = b'{"prompt":"hello","rest":"%s"}'
    filled = body % (b"x" * (size - len(body) + 2))
    assert len(filled) == size

    with assert_nothing_written():
        response = ada.post_raw(filled)

    assert assert_problem(response, 413, "too_large") == {}
    assert_key_is_free(ada)


def test_a_body_of_the_limit_is_read(ada: Api):
    body = b'{"prompt":"hello","rest":"%s"}'
    filled = body % (b"x" * (128 * 1024 - len(body) + 2))

    assert ada.post_raw(filled).status_code == 202


@pytest.mark.parametrize("accept", ["text/plain", "image/*", "application/xml;q=0.9"])
def test_an_answer_that_nobody_can_send_is_not_acceptable(ada: Api, accept: str):
    with assert_nothing_written():
        response = ada.post("hello", Accept=accept)

    assert assert_problem(response, 406, "not_acceptable") == {}
    assert_key_is_free(ada)


@pytest.mark.parametrize(
    "accept",
    ["*/*", "application/json", "application/*", "application/problem+json", "a/b, */*;q=0.1"],
)
def test_what_accepts_json_gets_json(ada: Api, accept: str):
    response = ada.post("hello", Accept=accept)

    assert response.status_code == 202
    assert response.headers["Content-Type"] == "application/json"


def test_a_reservation_larger_than_the_allowance_is_refused_for_good(ada: Api):
    give_budget(ada.user, daily_tokens=4, spent_tokens=0)

    with assert_nothing_written():
        response = ada.post("a" * 20)

    members = assert_problem(response, 422, "exceeds_daily_budget")
    midnight = f"{today() + timedelta(days=1)}T00:00:00Z"
    assert members == {
        "requested_tokens": 5,
        "remaining_tokens": 4,
        "daily_tokens": 4,
        "resets_at": midnight,
    }
    assert "Retry-After" not in response.headers
    assert_tells_budget(response, cap=4, left=4)
    give_budget(ada.user, daily_tokens=100)
    assert_key_is_free(ada)


def test_an_exhausted_budget_is_refused_until_tomorrow(ada: Api):
    give_budget(ada.user, daily_tokens=10, spent_tokens=6)

    with assert_nothing_written():
        response = ada.post("a" * 20)

    members = assert_problem(response, 429, "budget_exhausted")
    midnight = f"{today() + timedelta(days=1)}T00:00:00Z"
    assert members == {
        "retry": "tomorrow",
        "violated-policies": ["daily-tokens"],
        "requested_tokens": 5,
        "remaining_tokens": 4,
        "daily_tokens": 10,
        "resets_at": midnight,
    }
    assert int(response.headers["Retry-After"]) == pytest.approx(seconds_to_midnight(), abs=5)
    assert_tells_budget(response, cap=10, left=4)
    give_budget(ada.user, daily_tokens=100)
    assert_key_is_free(ada)


def test_too_many_active_jobs_are_refused_for_a_moment(ada: Api, settings: Settings):
    settings.MAX_ACTIVE_JOBS_PER_USER = 2
    job_in("queued", user=ada.user)
    job_in("running", user=ada.user)
    job_in("succeeded", user=ada.user)

    with assert_nothing_written():
        response = ada.post("hello")

    members = assert_problem(response, 429, "too_many_active_jobs")
    assert members == {"max_active_jobs": 2}
    assert response.headers["Retry-After"] == "5"
    settings.MAX_ACTIVE_JOBS_PER_USER = 3
    assert_key_is_free(ada)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "FOO"])
@pytest.mark.parametrize("path", ["/reports", "/reports/"])
def test_another_method_is_not_allowed(ada: Api, method: str, path: str):
    with assert_nothing_written():
        response = ada.request(
            method,
            path,
            data=json.dumps({"prompt": "hello"}),
            content_type="application/json",
            headers={"Idempotency-Key": "key-1"},
        )

    assert assert_problem(response, 405, "method_not_allowed") == {}
    assert response.headers["Allow"] == "GET, POST, HEAD, OPTIONS"


def test_a_method_override_is_ignored(ada: Api):
    assert ada.post("hello", **{"X-HTTP-Method-Override": "GET"}).status_code == 202
