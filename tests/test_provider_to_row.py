"""Every shared odd answer taken all the way: claim, call, ending, charge, API, page and admin."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from budgets.envelope import estimate_tokens
from reports import runner
from reports.errors import ErrorCode
from tests.provider.asking import KEY
from tests.provider.test_cases import T, expected_code
from tests.support.expect import body_of
from tests.support.provider_cases import Case, cases
from tests.support.rows import budget, job_in

if TYPE_CHECKING:
    from pytest_django import Settings

    from reports.models import ReportJob
    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)
OURS = {ErrorCode.PROVIDER_INVALID_RESPONSE: 502, ErrorCode.PROVIDER_TIMEOUT: 504}


def charge_of(case: Case, job: ReportJob) -> set[int]:
    """What the day may be charged: usage where there is one, else the estimate of both texts."""
    charged = case.expect["charged"]
    estimate = estimate_tokens(job.prompt) + estimate_tokens(job.result_text)
    amounts = charged if isinstance(charged, list) else [charged]
    return {estimate if amount == "estimate" else amount for amount in amounts}


def assert_shown_everywhere(api: Api, job: ReportJob) -> None:
    """API, page, list and admin render, without the provider's key or markup."""
    operator = User.objects.create_superuser("operator")
    owner, admin = Client(), Client()
    owner.force_login(api.user)
    admin.force_login(operator)
    answers: list[Any] = [
        api.get(f"/reports/{job.pk}"),
        owner.get(f"/jobs/{job.pk}/"),
        owner.get("/"),
        admin.get(f"/admin/reports/reportjob/{job.pk}/change/"),
        admin.get("/admin/reports/reportjob/"),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    for answer in answers:
        assert KEY.encode() not in answer.content
    for page in answers[1:]:
        assert b"<script>alert" not in page.content
    shown = body_of(answers[0])
    assert shown.get("text", "") == job.result_text
    assert shown.get("error_code", "") == job.error_code


@pytest.mark.parametrize("case", cases(T), ids=lambda case: case.name)
def test_every_shared_case_becomes_the_right_row(
    ada: Api, provider: Provider, settings: Settings, case: Case
):
    settings.INFERENCE_PROTOCOL = case.protocol
    settings.INFERENCE_KEY = KEY
    settings.INFERENCE_TIMEOUT_S = T if "within" in case.expect else 10
    runner.config.cache_clear()
    provider.script(*case.answers)
    job = job_in("queued", user=ada.user)

    began = time.monotonic()
    runner.run(job.pk)

    assert time.monotonic() - began < settings.INFERENCE_TIMEOUT_S + 1
    job.refresh_from_db()
    code = expected_code(case)
    spent = budget(ada.user)["spent_tokens"]
    if code is None:
        assert (job.status, job.http_status, job.error_code) == ("succeeded", 200, "")
        assert spent == job.settled_tokens
        assert spent in charge_of(case, job)
    else:
        http_status = OURS.get(code, case.answers[0].status)
        assert (job.status, job.http_status, job.error_code) == ("failed", http_status, code)
        assert (spent, job.settled_tokens) == (0, 0)
    assert budget(ada.user)["active_jobs"] == 0
    assert len(provider.wait_for_calls(1)) == 1
    assert_shown_everywhere(ada, job)
