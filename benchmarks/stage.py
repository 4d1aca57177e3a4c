"""The stage of a benchmark: PostgreSQL as a deployment has it, Valkey, a provider, processes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import psutil

from tools import children, postgres, valkey

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
READY_S = 60.0
# A commit is on disk before it is answered, as for people who pay; memory for ten million rows.
DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "max_connections": "400",  # a peer holds one for each call
}


@dataclass(slots=True)
class Stage:
    """Where everything runs, and what is running."""

    directory: Path
    database: postgres.Server
    broker: valkey.Valkey
    provider_port: int
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, command: list[str], **variables: str) -> subprocess.Popen[bytes]:
        """Run a process until `stop`, or to the end."""
        log = self.directory / f"{name}.log"
        environment = {**os.environ, **variables}
        child = children.spawn(command, log=log, environment=environment, directory=ROOT)
        self.started[name] = child
        return child

    def python(self, name: str, *words: str, **variables: str) -> subprocess.Popen[bytes]:
        """The same for a Python module."""
        return self.start(name, [sys.executable, *words], **variables)

    def procfile(self, name: str, **variables: str) -> subprocess.Popen[bytes]:
        """The same for a process of the product, as the Procfile starts it."""
        lines = (ROOT / "Procfile").read_text().splitlines()
        commands = {word: text.strip() for word, _, text in (line.partition(":") for line in lines)}
        return self.start(name, ["/bin/sh", "-c", commands[name]], **variables)

    def stop(self, *names: str) -> None:
        """End them, the first ones first."""
        for name in names:
            if child := self.started.pop(name, None):
                children.stop(child, by=signal.SIGTERM, within_s=30)

    def close(self) -> None:
        """End everything, calls that hang included."""
        for child in self.started.values():
            children.stop(child, by=signal.SIGKILL, within_s=10)

    def listens(self, name: str, port: int) -> None:
        """Return once a process takes connections."""
        children.wait_until(
            lambda: children.accepts(port), child=self.started[name], name=name, within_s=READY_S
        )

    def says(self, name: str, words: str) -> None:
        """Return once a process has written these words."""
        log = self.directory / f"{name}.log"
        children.wait_until(
            lambda: words in log.read_text(errors="replace"),
            child=self.started[name],
            name=name,
            within_s=READY_S,
        )

    def provider(self, path: str, method: str = "PUT") -> dict[str, Any]:
        """Tell the provider something, or ask what it saw."""
        url = f"http://127.0.0.1:{self.provider_port}{path}"
        question = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(question, timeout=10) as answer:  # noqa: S310  # likewise
            seen: dict[str, Any] = json.load(answer)
        return seen


@contextmanager
def set_up(**variables: str) -> Iterator[Stage]:
    """Services and a provider, named in the environment, which Django then reads."""
    postgres.SETTINGS.update(DURABLE)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parent = "/tmp" if os.geteuid() == 0 else None  # noqa: S108  # mkdtemp makes the name safe
    with TemporaryDirectory(prefix="reports-bench-", dir=parent) as name, ExitStack() as stack:
        directory = Path(name)
        directory.chmod(0o711)
        database = stack.enter_context(postgres.running(directory / "pg"))
        broker = stack.enter_context(valkey.running(directory / "valkey"))
        stage = Stage(directory, database, broker, valkey.free_port())
        stack.callback(stage.close)
        os.environ.update(
            PYTHON_DOTENV_DISABLED="1",
            DEBUG="0",
            SECRET_KEY=secrets.token_urlsafe(48),
            DATABASE_URL=database.url,
            REDIS_URL=broker.url,
            INFERENCE_URL=f"http://127.0.0.1:{stage.provider_port}/complete",
            MAX_ACTIVE_JOBS_PER_USER="1000000",
            DAILY_TOKEN_CAP=str(2**50),
            LOG_LEVEL="INFO",
            DJANGO_SETTINGS_MODULE="reports_project.settings",
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **variables,
        )
        stage.python("provider", "-m", "benchmarks.provider", "--port", str(stage.provider_port))
        stage.listens("provider", stage.provider_port)
        yield stage


def wait_for(is_so: Callable[[], bool], *, what: str, within_s: float) -> float:
    """Seconds until a condition holds; raises TimeoutError."""
    began = time.perf_counter()
    while not is_so():
        if time.perf_counter() - began > within_s:
            raise TimeoutError(f"{what}: not within {within_s:g} s")
        time.sleep(0.02)
    return time.perf_counter() - began


def memory_mb(child: subprocess.Popen[bytes]) -> float:
    """Resident memory of a process and what it started, shared pages counted once each."""
    process = psutil.Process(child.pid)
    family = [process, *process.children(recursive=True)]
    return sum(one.memory_full_info().pss for one in family) / 2**20


def threads(child: subprocess.Popen[bytes]) -> int:
    """Threads of a process and what it started."""
    process = psutil.Process(child.pid)
    return sum(one.num_threads() for one in [process, *process.children(recursive=True)])
