"""A real worker delivers beside slow calls; one that is killed leaves its attempt to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.provider import Answer, Provider
from tests.support.rows import job_in
from tests.support.waiting import until
from tests.system.parts import SHORT, SOON_S, queued
from tests.webhooks.making import all_deliveries, listening, make_due

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.processes import Processes

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]


def test_a_delivery_outlives_its_worker_and_waits_for_no_slot(
    crew: Processes, stand_in: Provider, ada: Api
):
    with Provider(Answer(b"", status=204)) as receiver:
        receiver.hold()
        listening(ada, receiver.url)
        job = job_in("succeeded", user=ada.user)
        worker = crew.worker()
        receiver.wait_for_calls(1, limit_s=SOON_S)
        worker.kill()
        [delivery] = all_deliveries()
        assert (delivery.state, delivery.attempts) == ("running", 1)

        stand_in.hold()
        slots = int(SHORT["WORKER_CONCURRENCY"])
        queued(ada, slots + 1)
        crew.worker()
        stand_in.wait_for_calls(slots, limit_s=SOON_S)
        receiver.release()
        make_due(delivery)

        until(
            lambda: all_deliveries()[0].state, lambda state: state == "delivered", within_s=SOON_S
        )
        assert all_deliveries()[0].job_id == job.pk
        assert [call.headers["webhook-id"] for call in receiver.calls] == [delivery.webhook_id] * 2
        stand_in.release()
