"""Each ending is told once to each endpoint that listens, whoever looks and however often."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from budgets.rows import Now
from reports.models import ReportJob
from tests.support.provider import Answer, Provider
from tests.support.rows import job_in
from tests.support.statements import recorded
from tests.support.threads import together
from tests.support.waiting import until
from tests.webhooks.making import all_deliveries, listening, make_due
from webhooks import loops, outbox
from webhooks.models import WebhookDelivery, WebhookWatermark

if TYPE_CHECKING:
    from tests.support.clients import Api

pytestmark = pytest.mark.django_db
ALONE = pytest.mark.django_db(transaction=True)
URL = "https://hooks.example/"


def told() -> set[tuple[object, object]]:
    """Which job is told to which endpoint."""
    return {(each.job_id, each.endpoint_id) for each in all_deliveries()}


def test_without_an_endpoint_a_look_is_one_statement(ada: Api):
    job_in("succeeded", user=ada.user)

    with recorded() as statements:
        assert outbox.note() == 0

    assert statements == ["SELECT webhooks_webhookendpoint"]


def test_each_endpoint_is_told_what_it_listens_to_and_nothing_of_others(ada: Api, bob: Api):
    both, also = listening(ada, URL), listening(ada, URL)
    good = listening(ada, URL, on_failure=False)
    bad = listening(ada, URL, on_success=False)
    listening(ada, URL, off="owner")
    his = listening(bob, URL)
    ended = {status: job_in(status, user=ada.user) for status in ("succeeded", "failed")}
    theirs = job_in("succeeded", user=bob.user)
    job_in("queued", user=ada.user)
    job_in("running", user=ada.user)

    assert outbox.note() == 7

    assert told() == {
        *((job.pk, each.pk) for job in ended.values() for each in (both, also)),
        (ended["succeeded"].pk, good.pk),
        (ended["failed"].pk, bad.pk),
        (theirs.pk, his.pk),
    }
    assert outbox.note() == 0


def test_what_ended_before_it_listened_is_not_told(ada: Api):
    job_in("succeeded", user=ada.user, age_s=60)
    listening(ada, URL, listens_since=Now() - timedelta(seconds=30))
    after = job_in("succeeded", user=ada.user, age_s=10)

    outbox.note()

    assert [each.job_id for each in all_deliveries()] == [after.pk]


def test_an_ending_that_is_seen_late_is_not_lost(ada: Api):
    listening(ada, URL)
    outbox.note()
    in_short = job_in("succeeded", user=ada.user, age_s=90)
    at_last = job_in("succeeded", user=ada.user, age_s=3600)

    outbox.note()
    assert [each.job_id for each in all_deliveries()] == [in_short.pk]
    outbox.note(back=outbox.FAR_BACK)
    assert {each.job_id for each in all_deliveries()} == {in_short.pk, at_last.pk}


def test_after_a_night_without_workers_all_is_told(ada: Api):
    listening(ada, URL)
    outbox.note()
    WebhookWatermark.objects.update(scanned_until=Now() - timedelta(hours=8))
    jobs = {job_in("failed", user=ada.user, age_s=age_s).pk for age_s in (7 * 3600, 3600, 1)}
    ReportJob.objects.filter(pk=min(jobs)).update(created_at=Now() - timedelta(days=3))

    assert outbox.note(back=outbox.FAR_BACK) == 3 - 1  # one of them was born long before
    assert outbox.note() == 1
    assert {each.job_id for each in all_deliveries()} == jobs


def test_more_than_one_look_takes_go_over_several(ada: Api, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outbox, "MOST_ROWS", 3)
    listening(ada, URL)
    for age_s in range(7):
        job_in("succeeded", user=ada.user, age_s=age_s)

    assert [outbox.note() for _ in range(4)] == [3, 3, 1, 0]


@ALONE
def test_many_who_look_at_once_tell_each_ending_once(ada: Api):
    listening(ada, URL)
    jobs = {job_in("succeeded", user=ada.user).pk for _ in range(5)}
    WebhookWatermark.objects.get_or_create(pk=1)

    together(lambda _: outbox.note(), range(8), threads=8)

    assert len(all_deliveries()) == len(jobs)
    assert {each.job_id for each in all_deliveries()} == jobs


@ALONE
def test_many_who_want_one_delivery_make_one_request(ada: Api, receiver: Provider):
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    outbox.note()
    [delivery] = all_deliveries()

    done = together(lambda _: loops.deliver(delivery.pk), range(8), threads=8)

    assert sorted(done, key=bool) == [False] * 7 + [True]
    assert len(receiver.calls) == 1


@ALONE
def test_a_receiver_that_hangs_takes_two_places_and_the_others_are_served(
    ada: Api, bob: Api, receiver: Provider
):
    crew = loops.Crew()
    with Provider(Answer(b"", status=204)) as slow:
        slow.hold()
        listening(ada, slow.url)
        listening(bob, receiver.url)
        for _ in range(5):
            job_in("succeeded", user=ada.user)
        job_in("succeeded", user=bob.user)
        outbox.note()

        crew.begin_due()
        slow.wait_for_calls(2)
        receiver.wait_for_calls(1)
        until(crew.count, lambda count: count == 2)
        assert crew.begin_due() == 0
        slow.release()
        until(crew.count, lambda count: count == 0)

    assert len(slow.calls) == 2
    states = sorted(each.state for each in all_deliveries())
    assert states == ["delivered"] * 3 + ["pending"] * 3


@ALONE
def test_no_connection_is_held_while_a_receiver_thinks(ada: Api, receiver: Provider):
    if connection.vendor == "sqlite":
        pytest.skip("a file needs no connection")
    crew = loops.Crew()
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    outbox.note()
    receiver.hold()

    crew.begin_due()
    receiver.wait_for_calls(1)
    connection.close()
    statistics = connection.pool.get_stats()  # type: ignore[attr-defined]
    held = statistics["pool_size"] - statistics["pool_available"]
    receiver.release()
    until(crew.count, lambda count: count == 0)

    assert held == 0


def test_old_deliveries_are_deleted_and_open_ones_stay(ada: Api):
    endpoint = listening(ada, URL)
    columns = {"endpoint": endpoint, "user": ada.user, "event": "report.test", "body": "{}"}
    for age_d in (29, 31):
        at = Now() - timedelta(days=age_d)
        ended = {"state": "failed", "next_try_at": None, "finished_at": at}
        WebhookDelivery.objects.create(**columns, **ended)
    WebhookDelivery.objects.create(**columns)

    assert outbox.delete_old() == 1
    assert WebhookDelivery.objects.count() == 2


@ALONE
def test_a_wait_that_is_not_over_is_not_cut_short(ada: Api, receiver: Provider):
    receiver.script(Answer(b"", status=500))
    listening(ada, receiver.url)
    job_in("succeeded", user=ada.user)
    outbox.note()
    [delivery] = all_deliveries()
    assert loops.deliver(delivery.pk)

    assert not loops.deliver(delivery.pk)
    assert loops.Crew().begin_due() == 0

    make_due(delivery)
    assert loops.deliver(delivery.pk)
    assert len(receiver.calls) == 2
