"""Data requests: everything that is kept of one user comes out, and goes."""

from __future__ import annotations

import json
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from budgets import caps
from budgets.models import CapChange
from reports import invariants, persons, provider as seam, retention, runner
from reports.models import ReportJob
from tests.support.expect import everything
from tests.support.rows import job_in, row

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.provider import Provider

pytestmark = pytest.mark.django_db(transaction=True)
STATUSES = ("queued", "running", "succeeded", "failed")


def run(command: str, *words: str) -> str:
    """What a command printed."""
    out = StringIO()
    call_command(command, *words, stdout=out)
    return out.getvalue()


def jobs_of(api: Api) -> list[dict[str, Any]]:
    """Every column of a user's jobs."""
    return [{**job} for job in ReportJob.objects.owned_by(api.user_id).order_by("pk").values()]


def test_an_export_holds_everything_of_one_user_and_nothing_of_another(ada: Api, bob: Api):
    job_in("succeeded", user=ada.user, prompt="what \u00e4 she asked", result_text="the answer")
    job_in("queued", user=ada.user, prompt="what she asks", idempotency_key="her key")
    job_in("succeeded", user=bob.user, prompt="his")
    ada.user.groups.add(Group.objects.create(name="writers"))
    caps.set_cap(ada.user_id, daily_tokens=5000, by=bob.user, why="she asked for it")

    document = json.loads(run("export_user", "ada"))

    assert document["account"]["username"] == "ada"
    assert document["account"]["groups"] == ["writers"]
    kept = document["reports.reportjob"]
    assert [job["prompt"] for job in kept] == ["what \u00e4 she asked", "what she asks"]
    assert kept[0]["result_text"] == "the answer"
    assert kept[1]["idempotency_key"] == "her key"
    assert document["budgets.inferencebudget"][0]["daily_tokens"] == 5000
    assert document["budgets.capchange"][0]["why"] == "she asked for it"
    text = json.dumps(document)
    for secret in ("bob", "his", ada.token[:8], "digest", "password", "claim_id"):
        assert secret not in text


def test_every_table_that_refers_to_a_user_is_in_the_export(ada: Api):
    tables = {
        model._meta.label_lower
        for model in apps.get_models()
        if any(field.related_model is get_user_model() for field in model._meta.concrete_fields)
    }

    document = json.loads(run("export_user", "ada"))

    assert {"reports.reportjob", "reports.usageday", "budgets.inferencebudget"} <= tables
    assert tables <= set(document)


def test_an_export_reads_a_few_rows_at_a_time(ada: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(persons, "CHUNK", 2)
    for _ in range(5):
        job_in("succeeded", user=ada.user)

    pieces = list(persons.export(ada.user))

    rows = [piece for piece in pieces if '"prompt"' in piece]
    assert len(rows) == 5
    assert all(piece.count("a prompt of the builder") == 1 for piece in rows)


def test_an_erasure_cancels_what_is_active_and_keeps_rows_and_account(ada: Api, bob: Api):
    for status in STATUSES:
        job_in(status, user=ada.user, prompt="hers")
    job_in("succeeded", user=bob.user, prompt="his")
    his = jobs_of(bob)

    said = run("erase_user", "ada", "--yes")

    assert said == "2 jobs cancelled, 4 erased, 0 deleted; the account stays.\n"
    assert {job["prompt"] for job in jobs_of(ada)} == {""}
    assert {job["result_text"] for job in jobs_of(ada)} == {""}
    assert [job["status"] for job in jobs_of(ada)] == ["failed", "failed", "succeeded", "failed"]
    assert jobs_of(bob) == his
    assert list(invariants.check()) == []
    assert ada.get("/reports").status_code == 200


def test_a_second_erasure_does_nothing(ada: Api):
    job_in("succeeded", user=ada.user)
    run("erase_user", "ada", "--yes")
    before = everything()

    said = run("erase_user", "ada", "--yes")

    assert said.startswith("0 jobs cancelled, 0 erased, 0 deleted;")
    assert everything() == before


def test_with_delete_nothing_is_left_that_names_the_user(
    ada: Api, bob: Api, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "BATCH", 2)
    for status in STATUSES:
        job_in(status, user=ada.user)
    job_in("queued", user=bob.user)
    his = jobs_of(bob)
    caps.set_cap(ada.user_id, daily_tokens=5000, by=bob.user, why="she asked for it")
    caps.set_cap(bob.user_id, daily_tokens=5000, by=ada.user, why="he asked for it")
    LogEntry.objects.log_actions(bob.user.pk, [ada.user], CHANGE, "Changed.")

    said = run("erase_user", "ada", "--delete", "--yes")

    assert said == "2 jobs cancelled, 4 erased, 4 deleted; the account is gone.\n"
    assert not get_user_model().objects.filter(username="ada").exists()
    assert jobs_of(ada) == []
    assert jobs_of(bob) == his
    changes = CapChange.objects.order_by("pk").values_list("name", "by_name")
    assert list(changes) == [("(erased)", "bob"), ("bob", "(erased)")]
    assert list(LogEntry.objects.values_list("object_repr", flat=True)) == ["(erased)"]
    assert list(invariants.check()) == []
    assert ada.get("/reports").status_code == 401


def test_an_answer_that_comes_after_the_account_went_is_dropped(
    ada: Api, provider: Provider, monkeypatch: pytest.MonkeyPatch
):
    job = job_in("queued", user=ada.user)
    complete = seam.complete

    def end_the_account(*words: Any, **how: Any) -> Any:
        run("erase_user", "ada", "--delete", "--yes")
        return complete(*words, **how)

    monkeypatch.setattr(seam, "complete", end_the_account)

    runner.run(job.pk)

    assert len(provider.calls) == 1
    assert not ReportJob.objects.exists()
    assert list(invariants.check()) == []


@pytest.mark.parametrize("command", ["export_user", "erase_user"])
def test_an_unknown_user_is_one_line(db: None, command: str):
    with pytest.raises(CommandError, match="There is no user 'nobody'"):
        run(command, "nobody")


@pytest.mark.parametrize(("typed", "is_erased"), [("ada", True), ("yes", False), ("", False)])
def test_it_asks_first(ada: Api, monkeypatch: pytest.MonkeyPatch, typed: str, *, is_erased: bool):
    job = job_in("succeeded", user=ada.user)
    monkeypatch.setattr("builtins.input", lambda _: typed)

    if is_erased:
        run("erase_user", "ada")
    else:
        with pytest.raises(CommandError, match="Nothing was erased"):
            run("erase_user", "ada")

    assert (row(job)["prompt"] == "") is is_erased
