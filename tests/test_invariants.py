"""Each rule of check_invariants goes red when a row breaks it, and stays green for honest rows."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from budgets.models import InferenceBudget
from reports import acceptance, invariants, transitions
from reports.errors import ErrorCode
from reports.models import ReportJob, Status
from reports.provider import Completion, Failure, Usage
from tests.support.rows import job_in

pytestmark = pytest.mark.django_db

LEASE_S = settings.INFERENCE_TIMEOUT_S + settings.LEASE_GRACE_S
SWEEPS_S = 2 * settings.SWEEP_INTERVAL_S
LONGEST_S = settings.QUEUE_TTL_S + LEASE_S + SWEEPS_S
ESTIMATED = 14  # of "x" * 40 and "y" * 16: 10 and 4
HUGE = 2**31 - 1


@pytest.fixture
def honest(ada, broker):
    """One job in each state and by each ending, made by the transitions themselves."""
    made = {"queued": _accept(ada, "queued"), "running": _accept(ada, "running")}
    transitions.claim(made["running"].pk)
    outcomes: dict[str, Completion | Failure] = {
        "reported": Completion("text", usage=Usage(HUGE, HUGE)),
        "estimated": Completion("y" * 16),
        "failed": Failure(ErrorCode.PROVIDER_5XX, 503, "It answered 503."),
    }
    for name, outcome in outcomes.items():
        made[name] = _accept(ada, name)
        held = transitions.claim(made[name].pk)
        assert held is not None
        if isinstance(outcome, Failure):
            assert transitions.fail(held, outcome)
        else:
            assert transitions.succeed(held, outcome)
        InferenceBudget.objects.update(daily_tokens=4 * HUGE)
    made["cancelled queued"] = _accept(ada, "cancelled queued")
    transitions.cancel(made["cancelled queued"])
    made["cancelled running"] = _accept(ada, "cancelled running")
    transitions.claim(made["cancelled running"].pk)
    transitions.cancel(made["cancelled running"])
    return made


def test_rows_made_by_the_transitions_are_in_order(honest):
    assert _faults() == []
    assert invariants.counted() == (7, 2)


def test_ok_is_one_line_and_exit_0(honest):
    out = StringIO()

    call_command("check_invariants", stdout=out)

    assert out.getvalue() == "ok: 7 jobs, 2 of them active\n"


def test_faults_are_printed_row_by_row_and_exit_1(honest):
    _set(honest["failed"], settled_tokens=3)
    _set(honest["queued"], started_at=Now())
    out = StringIO()

    with pytest.raises(CommandError, match="2 rows are off") as raised:
        call_command("check_invariants", stdout=out)

    assert raised.value.returncode == 1
    assert out.getvalue().splitlines() == [
        f"one call a row: {_row(honest['queued'])}: expected no claim, found queued with one",
        f"settled_tokens: {_row(honest['failed'])}: expected 0 tokens, found 3 tokens",
    ]


@pytest.mark.django_db(transaction=True)
def test_two_rows_of_one_key(ada):
    unique = [("user", "idempotency_key")]
    with connection.schema_editor() as editor:
        editor.alter_unique_together(ReportJob, unique, [])
    try:
        rows = [job_in(Status.QUEUED, user=ada.user, idempotency_key="twice") for _ in range(2)]

        assert _faults() == [
            ("one row a key", row, "1 row", "one of 2 rows") for row in sorted(map(_row, rows))
        ]
    finally:
        ReportJob.objects.all().delete()
        with connection.schema_editor() as editor:
            editor.alter_unique_together(ReportJob, [], unique)


def test_a_started_row_that_waits_again(honest):
    _set(honest["queued"], started_at=Now())

    assert _faults() == [
        ("one call a row", _row(honest["queued"]), "no claim", "queued with one"),
    ]


@pytest.mark.parametrize(
    ("name", "found"),
    [("reported", "succeeded without one"), ("failed", "failed provider_5xx without one")],
)
def test_an_outcome_without_a_claim(honest, name, found):
    _set(honest[name], claim_id=None, lease_expires_at=None)

    assert _faults() == [("one call a row", _row(honest[name]), "a claim", found)]


@pytest.mark.parametrize("status", [Status.QUEUED, Status.RUNNING])
def test_an_active_row_older_than_any_may_become(ada, status):
    young = job_in(status, user=ada.user)
    _set(young, created_at=Now() - timedelta(seconds=LONGEST_S - 5))
    old = job_in(status, user=ada.user)
    _set(old, created_at=Now() - timedelta(seconds=LONGEST_S + 1))

    assert [fault[:3] for fault in _faults()] == [("terminal in time", _row(old), "a terminal row")]


def test_a_lease_that_two_sweeps_left_behind(ada):
    fresh = job_in(Status.RUNNING, user=ada.user)
    _set(fresh, lease_expires_at=Now() - timedelta(seconds=SWEEPS_S - 5))
    left = job_in(Status.RUNNING, user=ada.user)
    _set(left, lease_expires_at=Now() - timedelta(seconds=SWEEPS_S + 1))

    assert [fault[:3] for fault in _faults()] == [
        ("terminal in time", _row(left), "a terminal row")
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reported", 2 * HUGE),
        ("estimated", ESTIMATED),
        ("failed", 0),
        ("cancelled queued", 0),
        ("cancelled running", 10),
    ],
)
@pytest.mark.parametrize("found", [77, None])
def test_an_ending_that_was_settled_by_no_rule(honest, name, expected, found):
    _set(honest[name], settled_tokens=found)

    faults = [fault for fault in _faults() if fault[0] == "settled_tokens"]

    said = "none" if found is None else "77 tokens"
    assert faults == [("settled_tokens", _row(honest[name]), f"{expected} tokens", said)]


def test_an_erased_text_is_not_counted_again(honest):
    honest["estimated"].refresh_from_db()
    assert transitions.erase(honest["estimated"])

    assert _faults() == []


@pytest.mark.parametrize("by", [1, -1])
def test_tokens_adrift(honest, ada, by):
    InferenceBudget.objects.update(spent_tokens=F("spent_tokens") + by)

    budget = InferenceBudget.objects.get()
    assert _faults() == [
        (
            "spent_tokens",
            f"user {ada.user_id} on {budget.day_utc}",
            f"{budget.spent_tokens - by} tokens",
            f"{budget.spent_tokens} tokens",
        )
    ]


@pytest.mark.parametrize("name", ["queued", "running", "reported", "estimated"])
def test_a_job_that_its_day_does_not_carry(honest, name):
    ReportJob.objects.filter(pk=honest[name].pk).delete()

    assert "spent_tokens" in [fault[0] for fault in _faults()]


def test_jobs_of_other_days_do_not_count(honest):
    yesterday = InferenceBudget.objects.get().day_utc - timedelta(days=1)
    ReportJob.objects.update(day_utc=yesterday)
    InferenceBudget.objects.update(spent_tokens=0, reserved_tokens=0)

    assert _faults() == []


def test_what_was_forgiven_is_still_in_the_books(honest, ada):
    InferenceBudget.objects.forgive(ada.user_id)
    assert _faults() == []

    InferenceBudget.objects.update(forgiven_tokens=F("forgiven_tokens") + 1)

    [(rule, _, _, _)] = _faults()
    assert rule == "spent_tokens + forgiven_tokens"


@pytest.mark.parametrize("by", [1, -1])
def test_reserved_tokens_adrift(honest, ada, by):
    InferenceBudget.objects.update(reserved_tokens=F("reserved_tokens") + by)

    [(rule, _, expected, found)] = _faults()
    assert rule == "reserved_tokens"
    assert (expected, found) == ("20 tokens", f"{20 + by} tokens")


@pytest.mark.parametrize("by", [1, -1])
def test_active_jobs_adrift(honest, ada, by):
    InferenceBudget.objects.update(active_jobs=F("active_jobs") + by)

    assert _faults() == [("active_jobs", f"user {ada.user_id}", "2", str(2 + by))]


def test_a_job_of_a_day_that_its_budget_has_not_reached(honest, ada):
    today = InferenceBudget.objects.get().day_utc
    tomorrow = today + timedelta(days=1)
    _set(honest["failed"], day_utc=tomorrow)

    assert _faults() == [("day_utc", f"user {ada.user_id}", f"{tomorrow} or later", str(today))]


def test_active_jobs_without_a_budget_row(honest, ada):
    InferenceBudget.objects.all().delete()

    assert _faults() == [("budget row", f"user {ada.user_id}", "one, for 2 active jobs", "none")]


def test_ended_jobs_need_no_budget_row(ada):
    job_in(Status.SUCCEEDED, user=ada.user)
    InferenceBudget.objects.all().delete()

    assert _faults() == []


@pytest.mark.parametrize(("spent", "active"), [(5, 0), (0, 1)])
def test_a_budget_spent_by_nobody(ada, bob, spent, active):
    for api in (ada, bob):
        job_in(Status.SUCCEEDED, user=api.user)
    ReportJob.objects.filter(user=ada.user).delete()
    InferenceBudget.objects.filter(user=ada.user).update(spent_tokens=spent, active_jobs=active)

    found = f"{spent} tokens, {active} active"
    assert _faults() == [("budget row", f"user {ada.user_id}", "0 tokens, 0 active", found)]


@pytest.mark.parametrize("is_left", [True, False])
def test_a_day_whose_jobs_were_deleted_with_their_keys_is_not_judged(ada, bob, settings, is_left):
    settings.KEY_RETENTION_DAYS = 2
    for days, user in ((3, ada.user), (1, bob.user)):
        job = job_in(Status.SUCCEEDED, user=user)
        day = job.day_utc - timedelta(days=days)
        _set(job, day_utc=day)
        InferenceBudget.objects.filter(user=user).update(day_utc=day, spent_tokens=99)
        if not is_left:
            job.delete()

    (fault,) = _faults()

    assert fault[1].startswith(f"user {bob.user_id}")


def test_nothing_secret_is_in_a_fault(honest):
    ReportJob.objects.update(settled_tokens=1, result_text="the text")
    InferenceBudget.objects.update(spent_tokens=1, active_jobs=9)

    said = "\n".join(str(fault) for fault in invariants.check())

    assert said
    for secret in ("xxxx", "the text", "key of"):
        assert secret not in said


def _accept(api, name):
    accepted = acceptance.accept(api.user_id, key=f"key of {name}", prompt="x" * 40)
    return ReportJob.objects.get(pk=accepted.job_id)


def _set(job, **columns):
    ReportJob.objects.filter(pk=job.pk).update(**columns)


def _row(job):
    return f"job {job.pk} of user {job.user_id}"


def _faults():
    return sorted((f.rule, f.row, f.expected, f.found) for f in invariants.check())
