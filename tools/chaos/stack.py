"""What chaos runs against: own services, and the Procfile's processes under a supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import requests

from tools import children, valkey
from tools.chaos import receiver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.postgres import Server

ROOT = Path(__file__).resolve().parent.parent.parent
# Short promises, so that every one of them falls due during a run.
SETTINGS = {
    "INFERENCE_TIMEOUT_S": "3",
    "LEASE_GRACE_S": "2",
    "QUEUE_TTL_S": "60",
    "SWEEP_INTERVAL_S": "1",
    "REDISPATCH_AFTER_S": "2",
    "INFERENCE_MAX_OUTPUT_TOKENS": "64",
    "DAILY_TOKEN_CAP": "100000000",
    "MAX_ACTIVE_JOBS_PER_USER": "60",
    "WORKER_CONCURRENCY": "20",
    "WEB_CONCURRENCY": "1",
}
LEASE_S = 5.0
PROMISE_S = 60 + LEASE_S + 2 * 1  # CONTRACT 5.2: QUEUE_TTL_S, the lease, two sweeps
MEMBERS = {"web": 2, "worker": 3, "beat": 2, "events": 1}
READY_S = 120.0
TERMINATED_S = 30.0


@dataclass(slots=True)
class Member:
    """One process of the Procfile, started again whenever it ends."""

    name: str
    kind: str
    command: list[str]
    log: Path
    environment: dict[str, str]
    child: subprocess.Popen[bytes] = field(init=False)
    is_frozen: bool = False
    killed_by: signal.Signals | None = None
    terminated_at: float = 0.0

    def start(self) -> None:
        """Start it, not waiting for it."""
        self.is_frozen, self.killed_by, self.terminated_at = False, None, 0.0
        self.child = children.spawn(
            self.command, log=self.log, environment=self.environment, directory=ROOT
        )

    def send(self, number: signal.Signals) -> None:
        """Signal the whole group, as a machine does; SIGTERM goes to the process itself."""
        if number == signal.SIGTERM:
            self.terminated_at = time.monotonic()
            self.child.send_signal(number)
        else:
            os.killpg(self.child.pid, number)
        if number in {signal.SIGKILL, signal.SIGTERM}:
            self.killed_by = number
        self.is_frozen = number == signal.SIGSTOP

    @property
    def is_up(self) -> bool:
        """Whether it lives and nothing has been done to it."""
        return self.child.poll() is None and self.killed_by is None and not self.is_frozen


@dataclass(slots=True)
class Stack:
    """Everything that runs, and how its processes have ended so far."""

    database: Server
    broker: valkey.Valkey
    logs: Path
    members: list[Member] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    ended_alone: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    slowest_end_s: float = 0.0

    @property
    def book(self) -> Path:
        """The provider's own call log."""
        return self.logs / "calls.jsonl"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of the harness's own, without the product's code."""
        host = str(self.database.directory)
        return psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True)

    def environment(self, **variables: str) -> dict[str, str]:
        """What the processes get and nothing of the developer's own."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        return {
            "PATH": path,
            "PYTHON_DOTENV_DISABLED": "1",
            "PYTHONUNBUFFERED": "1",
            "SECRET_KEY": "a secret of chaos, the same for every process of it",
            "HOST": "127.0.0.1",
            "DATABASE_URL": self.database.url,
            "REDIS_URL": self.broker.url,
            "INFERENCE_URL": "http://127.0.0.1:9/complete",
            **SETTINGS,
            **variables,
        }

    def manage(self, *words: str) -> subprocess.Popen[str]:
        """A command of manage.py under way; its output is to be read."""
        return subprocess.Popen(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def start(self) -> subprocess.Popen[bytes]:
        """Migrate, start everything, wait until it is ready; returns the provider's process."""
        migrate = self.manage("migrate", "--noinput")
        said, _ = migrate.communicate()
        if migrate.returncode:
            raise children.StartFailed(f"the migration failed: {said}")
        provider, url = self._start_provider()
        commands = procfile()
        # The webs pass streams on to it, also while it is away.
        events = str(valkey.free_port())
        for kind, count in MEMBERS.items():
            for number in range(1, count + 1):
                variables = {"INFERENCE_URL": url, "EVENTS_PORT": events}
                if kind == "web":
                    variables["PORT"] = str(valkey.free_port())
                    self.addresses.append(f"http://127.0.0.1:{variables['PORT']}")
                if kind == "worker":
                    variables |= receiver.VARIABLES
                self._start_member(f"{kind}-{number}", kind, commands[kind], variables)
        for address in self.addresses:
            children.wait_until(
                lambda address=address: _is_ready(address),  # type: ignore[misc]
                child=provider,
                name="the product",
                within_s=READY_S,
            )
        return provider

    def _start_provider(self) -> tuple[subprocess.Popen[bytes], str]:
        port = str(valkey.free_port())
        words = ["rehearsal_provider", "--port", port, "--latency", "0.05"]
        child = children.spawn(
            [sys.executable, "manage.py", *words, "--call-log", str(self.book)],
            log=self.logs / "provider.log",
            environment=self.environment(),
            directory=ROOT,
        )
        children.wait_until(self.book.exists, child=child, name="the provider", within_s=READY_S)
        return child, f"http://127.0.0.1:{port}/complete"

    def _start_member(self, name: str, kind: str, command: str, variables: dict[str, str]) -> None:
        words = ["/bin/sh", "-c", command]
        log = self.logs / f"{name}.log"
        member = Member(name, kind, words, log, self.environment(**variables))
        member.start()
        self.members.append(member)

    def keep(self) -> None:
        """Start again what has ended, as a supervisor does."""
        for member in self.members:
            if member.child.poll() is None:
                self._end_hung(member)
                continue
            if member.killed_by is None:
                self.ended_alone.append(f"{member.name} (exit status {member.child.returncode})")
            elif member.terminated_at:
                took_s = time.monotonic() - member.terminated_at
                self.slowest_end_s = max(self.slowest_end_s, took_s)
            children.kill_group(member.child)
            member.start()

    def _end_hung(self, member: Member) -> None:
        if member.terminated_at and time.monotonic() > member.terminated_at + TERMINATED_S:
            self.hung.append(member.name)
            member.terminated_at = 0.0
            member.send(signal.SIGKILL)

    def close(self) -> None:
        """End every process, frozen or not."""
        for member in self.members:
            if member.child.poll() is None:
                member.send(signal.SIGCONT)
                member.send(signal.SIGTERM)
        for member in self.members:
            children.stop(member.child, by=signal.SIGTERM, within_s=TERMINATED_S)


def procfile() -> dict[str, str]:
    """The commands of the Procfile by name."""
    lines = (ROOT / "Procfile").read_text().splitlines()
    return {name: command.strip() for name, _, command in (line.partition(":") for line in lines)}


def calls(book: Path) -> list[dict[str, Any]]:
    """What the provider wrote down, a line a request."""
    return [json.loads(line) for line in book.read_text().splitlines()]


def tokens(stack: Stack, usernames: Sequence[str]) -> list[str]:
    """A bearer token for each user, who is made."""
    issuing = [stack.manage("issue_token", name, "--create") for name in usernames]
    return [command.communicate()[0].splitlines()[-1] for command in issuing]


def _is_ready(address: str) -> bool:
    try:
        return requests.get(f"{address}/readyz", timeout=5).ok
    except requests.RequestException:
        return False
