"""What operators do to jobs: asked before, counted, on record, and by permission only."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.utils import timezone

from budgets import asking
from reports import dispatch, messages, operating, timeline
from reports.models import ReportJob
from tests.admin.conftest import staff
from tests.admin.paths import JOBS, page_of
from tests.support import html
from tests.support.expect import assert_nothing_written, assert_unchanged
from tests.support.rows import budget, job_in, row

if TYPE_CHECKING:
    import redis
    from django.test import Client

    from tests.support.clients import Api
    from tests.support.expect import Answer

pytestmark = pytest.mark.django_db

FINAL = ("cancel", "fail_as_lost", "erase")


def ask(client: Client, action: str, *jobs: ReportJob, **form: str) -> Answer:
    """Choose jobs in the list and an action for them."""
    chosen = {"action": action, "_selected_action": [str(job.pk) for job in jobs], **form}
    return client.post(JOBS, chosen, follow=True)


def act(client: Client, action: str, *jobs: ReportJob) -> Answer:
    """Choose jobs and an action, and say yes."""
    return ask(client, action, *jobs, confirmed="yes")


def offered(client: Client, job: ReportJob) -> list[str | None]:
    """The buttons of a job's own page."""
    page = html.read(client.get(page_of(job)))
    return [named["value"] for tag, named in page.tags if named.get("name") == "action"]


def entries() -> list[tuple[str | None, str]]:
    """What is on record: about which job, and what."""
    return [(entry.object_id, entry.get_change_message()) for entry in LogEntry.objects.all()]


def test_an_operator_cancels_jobs_and_is_told_how_many(operator: Client, ada: Api):
    queued, running = (job_in(status, user=ada.user) for status in ("queued", "running"))
    ended = job_in("succeeded", user=ada.user)
    spent: Any = budget(ada.user)["spent_tokens"]

    response = act(operator, "cancel", queued, running, ended)

    assert "2 cancelled; 1 not, having ended before." in html.read(response).words
    assert [row(job)["error_code"] for job in (queued, running, ended)] == [
        "cancelled",
        "cancelled",
        "",
    ]
    assert budget(ada.user)["spent_tokens"] == spent - queued.token_estimate
    for job in (queued, running):
        assert timeline.steps(ReportJob.objects.get(pk=job.pk))[-1].detail.startswith(
            "by an operator, "
        )


def test_an_operator_fails_a_job_whose_worker_is_gone(operator: Client, ada: Api):
    running, queued = (job_in(status, user=ada.user) for status in ("running", "queued"))

    response = act(operator, "fail_as_lost", running, queued)

    assert "1 failed as lost; 1 not, not running." in html.read(response).words
    assert row(running)["error_code"] == "worker_lost"
    assert row(queued)["status"] == "queued"


def test_an_operator_erases_texts_of_what_has_ended(operator: Client, ada: Api):
    ended = job_in("succeeded", user=ada.user, prompt="my prompt", result_text="my text")
    erased = job_in("succeeded", user=ada.user, erased_at=timezone.now())
    running = job_in("running", user=ada.user, prompt="kept")

    response = act(operator, "erase", ended, erased, running)

    assert "1 erased; 2 not, not ended yet, or erased before." in html.read(response).words
    assert (row(ended)["prompt"], row(ended)["result_text"]) == ("", "")
    assert row(running)["prompt"] == "kept"


def test_an_operator_publishes_again_what_waits(operator: Client, ada: Api, broker: redis.Redis):
    queued = job_in("queued", user=ada.user)
    waiting = job_in("queued", user=ada.user, try_after=timezone.now() + timedelta(hours=1))
    running = job_in("running", user=ada.user)

    response = ask(operator, "publish_again", queued, waiting, running)

    assert "1 published again; 2 not" in html.read(response).words
    assert broker.llen(messages.JOBS_QUEUE) == 1
    assert row(queued)["republished"] == 1
    assert row(waiting)["republished"] == 0
    assert entries() == [(str(queued.pk), "Published again.")]


def test_a_broker_that_takes_nothing_is_told(operator: Client, ada: Api, monkeypatch):
    monkeypatch.setattr(dispatch, "publish", lambda _: False)

    response = ask(operator, "publish_again", job_in("queued", user=ada.user))

    assert "0 published again; 1 not, not waiting, or not taken by" in html.read(response).words
    assert entries() == []


@pytest.mark.parametrize("action", FINAL)
def test_what_cannot_be_undone_is_asked_first(operator: Client, ada: Api, action: str):
    jobs = [job_in(status, user=ada.user) for status in ("queued", "running", "succeeded")]

    with assert_nothing_written():
        page = html.read(ask(operator, action, *jobs))

    assert "This cannot be undone." in page.words
    assert all(str(job.pk) in page.words for job in jobs)
    assert (page.fields["action"], page.fields["confirmed"]) == (action, "yes")
    assert entries() == []


def test_a_yes_is_about_the_jobs_that_were_shown(operator: Client, ada: Api):
    job = job_in("running", user=ada.user)

    response = operator.post(
        f"{JOBS}?status__exact=queued",  # which it was when it was chosen
        {"action": "cancel", "_selected_action": str(job.pk), "confirmed": "yes"},
        follow=True,
    )

    assert "1 cancelled." in html.read(response).words


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        ("cancel", "queued", "Cancelled."),
        ("fail_as_lost", "running", "Failed as lost."),
        ("erase", "succeeded", "Erased."),
    ],
)
def test_each_act_is_on_record_with_its_operator(
    operator: Client, ada: Api, action: str, status: str, words: str, caplog
):
    job = job_in(status, user=ada.user, prompt="my prompt")
    other = job_in("succeeded", user=ada.user, erased_at=timezone.now())

    with caplog.at_level(logging.INFO):
        act(operator, action, job, other)

    entry = LogEntry.objects.get()
    assert entry.user.get_username() == "operator"
    assert entries() == [(str(job.pk), words)]
    assert f"operator {entry.user_id}: job {job.pk} {words[:-1].lower()}" in caplog.text
    assert "my prompt" not in caplog.text


def test_an_action_is_bounded_and_says_so(operator: Client, ada: Api, monkeypatch):
    monkeypatch.setattr(asking, "MOST_ROWS", 2)
    jobs = [job_in("queued", user=ada.user) for _ in range(3)]

    asked = html.read(ask(operator, "cancel", jobs[0], select_across="1"))
    done = html.read(act(operator, "cancel", *jobs))

    assert "These are the first 2 of them." in asked.words
    assert str(jobs[0].pk) not in asked.words
    assert "2 cancelled; the others were not tried" in done.words
    assert row(jobs[0])["status"] == "queued"


def test_an_action_ends_in_time(operator: Client, ada: Api, monkeypatch):
    monkeypatch.setattr(operating, "LONGEST_S", -1.0)
    job = job_in("queued", user=ada.user)

    with assert_unchanged(job):
        page = html.read(act(operator, "cancel", job))

    assert "0 cancelled; the others were not tried" in page.words


def test_who_may_only_look_is_offered_nothing(watcher: Client, ada: Api):
    jobs = [job_in(status, user=ada.user) for status in ("queued", "running", "succeeded")]

    with assert_nothing_written():
        for action in (*FINAL, "publish_again"):
            act(watcher, action, *jobs)

    pages = [html.read(watcher.get(path)) for path in (JOBS, *map(page_of, jobs))]
    for page in pages:
        assert not [tag for tag, named in page.tags if named.get("name") == "action"]


@pytest.mark.parametrize(
    ("permission", "moved", "kept"),
    [("change_reportjob", "queued", "succeeded"), ("delete_reportjob", "succeeded", "queued")],
)
def test_ending_and_erasing_take_different_permissions(
    ada: Api, permission: str, moved: str, kept: str
):
    client = staff("worker", "view_reportjob", permission)
    jobs = {status: job_in(status, user=ada.user) for status in (moved, kept)}
    before = {status: row(job) for status, job in jobs.items()}

    for action in ("cancel", "erase"):
        act(client, action, *jobs.values())

    assert row(jobs[moved]) != before[moved]
    assert row(jobs[kept]) == before[kept]
    assert offered(client, jobs[kept]) == []


def test_a_jobs_own_page_offers_what_can_be_done(operator: Client, ada: Api):
    acts = {"queued": ["publish_again", "cancel"], "running": ["fail_as_lost", "cancel"]}

    for status, names in {**acts, "succeeded": ["erase"], "failed": ["erase"]}.items():
        assert offered(operator, job_in(status, user=ada.user)) == names
