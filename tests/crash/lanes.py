"""A database, a broker's number, a provider and a victim of one's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg

from tests.support import processes
from tests.support.provider import Provider
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.crash.scenarios import Scenario

BROKER_NUMBERS = {"postgresql": 11, "sqlite": 12}  # the tests around this one use 0


@dataclass(slots=True)
class Lane:
    """Where one database's crash sweep runs; commands go to the victim, and calls are counted."""

    vendor: str
    victim: subprocess.Popen[str]
    provider: Provider
    log: Path
    token: str = ""

    def ask(self, do: str, **command: object) -> dict[str, Any]:
        """Have a child of the victim do something; AssertionError if the victim itself is gone."""
        assert self.victim.stdin is not None
        assert self.victim.stdout is not None
        self.victim.stdin.write(json.dumps({"do": do, "token": self.token, **command}) + "\n")
        self.victim.stdin.flush()
        line = self.victim.stdout.readline()
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

    def begin(self, scenario: Scenario) -> None:
        """Forget earlier calls, and answer as the scenario wants."""
        self.provider.script(*scenario.answers)


@contextmanager
def lane(vendor: str, directory: Path) -> Iterator[Lane]:
    """A lane on a database of this vendor, made for it and dropped after it."""
    with _database(vendor, directory) as url, Provider() as provider:
        environment = processes.environment(
            DJANGO_SETTINGS_MODULE="reports_project.settings",
            DATABASE_URL=url,
            REDIS_URL=_numbered(os.environ["REDIS_URL"], BROKER_NUMBERS[vendor]),
            INFERENCE_URL=provider.url,
            ALLOWED_HOSTS="testserver",
            INFERENCE_MAX_ATTEMPTS="2",
        )
        log = directory / f"victim-{vendor}.log"
        with log.open("w") as errors, _victim(environment, errors) as victim:
            opened = Lane(vendor, victim, provider, log)
            (opened.token,) = opened.tell("migrate")
            opened.tell("warm", scenario="accept")
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
