"""Real processes of the Procfile for system tests: start, freeze, kill, read what they said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
import requests
from django.conf import settings
from django.db import connection

from tools import children, valkey

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent.parent
# Inherited by whatever a process starts, also by what leaves its group and its session.
MARK = "REPORTS_TEST_RUN"
READY_S = 60.0


@dataclass(frozen=True, slots=True)
class Process:
    """One running process and its log."""

    name: str
    child: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """The process that Procfile's `exec` left: Python itself, not a shell."""
        return self.child.pid

    def said(self) -> str:
        """Everything that it wrote so far."""
        return self.log.read_text(errors="replace")

    def terminate(self, *, within_s: float = 30) -> int:
        """SIGTERM, then wait; returns the exit status."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(within_s)

    def kill(self) -> None:
        """SIGKILL for the process and all in its group: a machine that lost its power."""
        children.kill_group(self.child)
        self.child.wait(10)

    def freeze(self) -> None:
        """SIGSTOP: it lives, keeps its connections and does nothing."""
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.killpg(self.pid, signal.SIGCONT)


@dataclass(slots=True)
class Processes:
    """Starts processes that see the test's own database and broker."""

    directory: Path
    environment: dict[str, str]
    mark: str = field(default_factory=lambda: uuid4().hex)
    started: list[Process] = field(default_factory=list)

    def web(self, **variables: str) -> str:
        """A web process that answers; returns its address."""
        port = str(valkey.free_port())
        process = self.start("web", PORT=port, **variables)
        address = f"http://127.0.0.1:{port}"
        self.wait(process, lambda: _is_ok(f"{address}/healthz"))
        return address

    def events(self, **variables: str) -> tuple[Process, str]:
        """A process that streams events, and its address."""
        port = variables.pop("EVENTS_PORT", None) or str(valkey.free_port())
        process = self.start("events", EVENTS_PORT=port, **variables)
        address = f"http://127.0.0.1:{port}"
        self.wait(process, lambda: _is_ok(f"{address}/healthz"))
        return process, address

    def worker(self, **variables: str) -> Process:
        """A worker that listens."""
        process = self.start("worker", **variables)
        self.wait(process, lambda: " ready." in process.said())
        return process

    def beat(self, **variables: str) -> Process:
        """A beat whose clock runs."""
        process = self.start("beat", **variables)
        self.wait(process, lambda: _is_connected(process.pid))
        return process

    def start(self, name: str, **variables: str) -> Process:
        """A process by its name in the Procfile, not waited for."""
        return self.run(name, ["/bin/sh", "-c", procfile()[name]], **variables)

    def run(self, name: str, command: list[str], **variables: str) -> Process:
        """Any command, with the environment of the processes."""
        log = self.directory / f"{len(self.started)}-{name}.log"
        environment = {**self.environment, MARK: self.mark, **variables}
        child = children.spawn(command, log=log, environment=environment, directory=ROOT)
        process = Process(name, child, log)
        self.started.append(process)
        return process

    def wait(self, process: Process, is_ready: Callable[[], bool]) -> None:
        """Wait for a process; its log is part of the complaint when it fails."""
        try:
            children.wait_until(is_ready, child=process.child, name=process.name, within_s=READY_S)
        except children.StartFailed as failure:
            raise AssertionError(f"{failure}\n{process.said()}") from failure

    def close(self) -> None:
        """End everything; whatever a process left behind is a failure."""
        for process in self.started:
            if process.child.poll() is None:
                process.thaw()
                process.child.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.child.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
        assert_nothing_left(self.mark)


def assert_nothing_left(mark: str, *, within_s: float = 10) -> None:
    """No process that was started under this mark is alive; kills and reports those that are."""
    deadline = time.monotonic() + within_s
    while (left := _marked(mark)) and time.monotonic() < deadline:
        psutil.wait_procs(left, timeout=0.2)
    described = [f"{process.pid}: {' '.join(process.cmdline())}" for process in left]
    for process in left:
        process.kill()
    assert described == []


def find(mark: str, *words: str) -> int:
    """The pid of the oldest process under this mark whose command line has these words."""
    found = [process for process in _marked(mark) if set(words) <= _words(process)]
    return min(found, key=lambda process: process.create_time()).pid


def _words(process: psutil.Process) -> set[str]:
    return {Path(part).name for part in process.cmdline()}


def _marked(mark: str) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _has_mark(process, mark)]


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        is_marked = process.environ().get(MARK) == mark
        return is_marked and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:  # gone meanwhile, or somebody else's
        return False


def procfile() -> dict[str, str]:
    """The commands of the Procfile by name."""
    lines = (ROOT / "Procfile").read_text().splitlines()
    return {name: command.strip() for name, _, command in (line.partition(":") for line in lines)}


def environment(**variables: str) -> dict[str, str]:
    """What the processes need and nothing of the developer's own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {
        "PATH": path,
        "PYTHON_DOTENV_DISABLED": "1",
        "PYTHONUNBUFFERED": "1",
        "DEBUG": "1",
        "SECRET_KEY": settings.SECRET_KEY,
        "DATABASE_URL": database_url(),
        "REDIS_URL": os.environ["REDIS_URL"],
        "INFERENCE_URL": settings.INFERENCE_URL,
        "WEB_CONCURRENCY": "1",
        **variables,
    }


def database_url() -> str:
    """The test database, which is named otherwise than the one in DATABASE_URL."""
    url = os.environ["DATABASE_URL"]
    if connection.vendor == "sqlite":
        return url
    return urlsplit(url)._replace(path=f"/{connection.settings_dict['NAME']}").geturl()


def _is_connected(pid: int) -> bool:
    """Whether it talks to the broker: a beat says nothing, and until then cannot end well."""
    sockets = psutil.Process(pid).net_connections(kind="tcp")
    return any(socket.status == psutil.CONN_ESTABLISHED for socket in sockets)


def _is_ok(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).ok
    except requests.RequestException:
        return False
