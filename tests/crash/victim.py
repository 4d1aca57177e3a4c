"""A warm process with nothing open, which forks a child for each command on its standard input.

The child of `act` dies at the boundary that it is told; the child of `recover` is what starts after
it. Forking costs milliseconds where a new interpreter would cost a second.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Any

import redis
from celery import current_app
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections

from budgets.models import InferenceBudget
from reports import hints
from reports.models import ReportJob
from tests.crash import boundaries, recovery
from tests.crash.boundaries import Boundary
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.support.clients import Api
from tests.support.patience import take_no_stall_for_an_outage
from tests.support.waiting import until
from webhooks.models import WebhookDelivery, WebhookEndpoint, WebhookWatermark

if TYPE_CHECKING:
    from collections.abc import Callable

    Tell = Callable[[object], None]


def main() -> None:
    """Serve until the input closes."""
    take_no_stall_for_an_outage()
    # What anything prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        command = json.loads(line)
        answer = _fork(command)
        if command["do"] == "warm":
            _load(answer["told"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _load(modules: list[str]) -> None:
    """Import what a first child had to import; open nothing, which all children would share."""
    current_app.finalize()
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # a collection would copy every page that the children share


def _fork(command: dict[str, Any]) -> dict[str, Any]:
    """Obey in a child; return what it told and how it ended: 0, 1 after a traceback, or -9."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            _obey(command, lambda word: _tell(write, word))
        except BaseException:  # noqa: BLE001  # the edge: nothing may escape into the parent's loop
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = [json.loads(line) for line in pipe]
    _, status = os.waitpid(pid, 0)
    return {"told": told, "ended": os.waitstatus_to_exitcode(status)}


def _tell(pipe: int, word: object) -> None:
    os.write(pipe, json.dumps(word).encode() + b"\n")


def _obey(command: dict[str, Any], tell: Tell) -> None:
    if command["do"] == "migrate":
        call_command("migrate", verbosity=0)
        tell(Api.of_new("ada").token)
        return
    api = Api(get_user_model().objects.get(), command["token"])
    scenario = SCENARIOS[command["scenario"]]
    if command["do"] == "warm":
        known = set(sys.modules)
        _act(scenario, api, tell=lambda _: None, kill_at=None)
        recovery.recover(scenario, api)
        for name in sys.modules.keys() - known:
            tell(name)
    elif command["do"] == "recover":
        tell(recovery.recover(scenario, api))
    elif command["do"] == "look":
        tell(_described())
    else:
        _act(scenario, api, tell=tell, kill_at=command["kill_at"])


def _act(scenario: Scenario, api: Api, *, tell: Tell, kill_at: list[Any] | None) -> None:
    for model in (WebhookEndpoint, WebhookWatermark, ReportJob):
        model.objects.all().delete()
    InferenceBudget.objects.all().delete()
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        broker.flushdb()
    scenario.prepare(api)
    connections.close_all()
    recorder = boundaries.Recorder(tell, Boundary(*kill_at) if kill_at else None)
    boundaries.watch(recorder)
    scenario.act(api)
    if scenario.last:
        until(lambda: recorder.has_reached(scenario.thread, scenario.last), within_s=30)
    hints._teller._waiting.join()


def _described() -> list[str]:
    deliveries = WebhookDelivery.objects.all()
    return [
        "; ".join(
            (
                f"{job.status} {job.error_code or ('erased' if job.is_erased else '')}".strip(),
                *(delivery.state for delivery in deliveries if delivery.job_id == job.pk),
            )
        )
        for job in ReportJob.objects.all()
    ]
