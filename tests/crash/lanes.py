"""A database, a broker's number, a provider and a victim of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import redis

from reports import hints
from tests.crash.scenarios import SCENARIOS, TOLD
from tests.support import processes
from tests.support.provider import Provider
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.scenarios import Scenario

BROKER_NUMBERS = {"postgresql": 11, "sqlite": 12}  # the tests around this one use 0
WARM = ("accept", "run, watched", "tell")  # together they import what any of them does


@dataclass(slots=True)
class Lane:
    """Where one database's crash sweep runs; commands go to the victim, and calls are counted."""

    vendor: str
    victim: subprocess.Popen[str]
    provider: Provider
    receiver: Provider  # of webhooks
    broker: redis.Redis
    log: Path
    token: str = ""
    is_acting: bool = False

    def ask(self, do: str, **command: object) -> dict[str, Any]:
        """Have a child of the victim do something; AssertionError if the victim itself is gone."""
        assert self.victim.stdin is not None
        assert self.victim.stdout is not None
        self.victim.stdin.write(json.dumps({"do": do, "token": self.token, **command}) + "\n")
        self.victim.stdin.flush()
        self.is_acting = True
        line = self.victim.stdout.readline()
        self.is_acting = False
        assert line, self.log.read_text()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def tell(self, do: str, **command: object) -> list[Any]:
        """Have a child do something to its end; what it told."""
        answer = self.ask(do, **command)
        assert answer["ended"] == 0, self.log.read_text()
        return list(answer["told"])

    def calls(self) -> list[str]:
        """The job id of each request that the provider saw, once all connections have ended."""
        until(lambda: self.provider.open_connections, lambda still_open: still_open == 0)
        return [call.job_id for call in self.provider.calls]

    def messages(self) -> list[str]:
        """The id of each message that the receiver saw, once all connections have ended."""
        until(lambda: self.receiver.open_connections, lambda still_open: still_open == 0)
        return [call.headers["webhook-id"] for call in self.receiver.calls]

    def begin(self, scenario: Scenario) -> None:
        """Forget earlier calls, and answer as the scenario wants."""
        answers = scenario.answers
        if scenario.waits_for_text:
            answers = (replace(answers[0], waits=(len(TOLD), self._is_passed_on)),)
        self.provider.script(*answers)
        self.receiver.script(*scenario.receiver)

    def _is_passed_on(self) -> bool:
        return not self.is_acting or bool(self.broker.keys(f"{hints.TEXT}*"))


@contextmanager
def lane(vendor: str, directory: Path) -> Iterator[Lane]:
    """A lane on a database of this vendor, made for it and dropped after it."""
    with (
        _database(vendor, directory) as url,
        redis.Redis.from_url(_numbered(os.environ["REDIS_URL"], BROKER_NUMBERS[vendor])) as broker,
        Provider() as provider,
        Provider() as receiver,
    ):
        environment = processes.environment(
            DJANGO_SETTINGS_MODULE="reports_project.settings",
            DATABASE_URL=url,
            REDIS_URL=_numbered(os.environ["REDIS_URL"], BROKER_NUMBERS[vendor]),
            INFERENCE_URL=provider.url,
            CRASH_RECEIVER=receiver.url,
            ALLOWED_HOSTS="testserver",
            INFERENCE_MAX_ATTEMPTS="2",
        )
        log = directory / f"victim-{vendor}.log"
        with log.open("w") as errors, _victim(environment, errors) as victim:
            opened = Lane(vendor, victim, provider, receiver, broker, log)
            (opened.token,) = opened.tell("migrate")
            for name in WARM:
                opened.begin(SCENARIOS[name])
                opened.tell("warm", scenario=name)
            yield opened


@contextmanager
def _victim(environment: dict[str, str], errors: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.crash"],
        cwd=processes.ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    ) as victim:
        try:
            yield victim
        finally:
            assert victim.stdin is not None
            victim.stdin.close()  # the victim ends with its input
            assert victim.wait(30) == 0


@contextmanager
def _database(vendor: str, directory: Path) -> Iterator[str]:
    if vendor == "sqlite":
        yield f"sqlite:///{directory / 'crash.sqlite3'}"
        return
    url = os.environ["DATABASE_URL"]
    name = f"crash_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(url)._replace(path=f"/{name}").geturl()
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _numbered(redis_url: str, number: int) -> str:
    return urlsplit(redis_url)._replace(path=f"/{number}").geturl()
