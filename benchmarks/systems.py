"""What is measured side by side: the product, and two peers that do the same job."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.driver import request
from tools import valkey

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.stage import Stage

USERS = 100
HELD = 200
FIRST_USER = 7_000_000  # ids that no other number in a statement is taken for
PROMPT = b'{"prompt": "Why is the sky blue, and why are sunsets red? Explain it to a child."}'


@dataclass(slots=True)
class System:
    """One way to turn a POST into a completion, with its processes on the stage."""

    name: str
    stage: Stage
    tokens: list[str]
    jobs: str  # its table
    port: int = field(default_factory=valkey.free_port)
    number: int = 0  # of the latest POST; its user is the one at this place, modulo all
    workers: list[str] = field(default_factory=list)

    def start_web(self) -> None:
        """Return once it listens."""
        WEB[self.name](self)
        self.stage.listens("web", self.port)

    def start_workers(self, slots: int) -> None:
        """Workers that carry so many calls at a time, or do as well as they can for few."""
        self.workers = WORKERS[self.name](self, slots)

    def stop_workers(self) -> None:
        """End them."""
        self.stage.stop(*self.workers)
        self.workers = []

    def stop(self) -> None:
        """End all of it."""
        self.stop_workers()
        self.stage.stop("web", "beat")

    def post(self, *, users: int = USERS, at_most: int | None = None) -> Callable[[], bytes | None]:
        """Makes POSTs with new keys, user by user."""
        last = None if at_most is None else self.number + at_most
        beginnings = [self._post_of(token) for token in self.tokens[:users]]

        def make() -> bytes | None:
            if last is not None and self.number >= last:
                return None
            self.number += 1
            return beginnings[self.number % users].replace(b"KEY", str(self.number).encode())

        return make

    def get(self, path: str, token: str, **headers: str) -> Callable[[], bytes]:
        """Reads one address again and again."""
        headers = {"Authorization": f"Bearer {token}", **headers}
        content = request("GET", path, headers=headers)
        return lambda: content

    def _post_of(self, token: str) -> bytes:
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": f"{self.name}-KEY"}
        return request("POST", "/reports", body=PROMPT, headers=headers)


def _product_web(system: System) -> None:
    system.stage.procfile("web", PORT=str(system.port), HOST="127.0.0.1")


def _product_workers(system: System, slots: int) -> list[str]:
    system.stage.procfile("worker", WORKER_CONCURRENCY=str(slots))
    system.stage.says("worker", " ready.")
    return ["worker"]


def _source_web(system: System) -> None:
    words = ["-m", "uvicorn", "benchmarks.peers.source:app", "--workers", "2"]
    quiet = ["--port", str(system.port), "--log-level", "warning", "--no-access-log"]
    system.stage.python("web", *words, *quiet)


def _source_workers(system: System, slots: int) -> list[str]:
    # A process a call: two processes a core are the most that helps where calls take no time.
    processes = slots if slots >= HELD else 4
    system.stage.python("worker", "-m", "benchmarks.peers.source", str(processes))
    return ["worker"]


def _stock_web(system: System) -> None:
    words = ["benchmarks.peers.stock:application", "--workers", "2", "--threads", "4"]
    place = ["--bind", f"127.0.0.1:{system.port}", "--reuse-port", "--log-level", "warning"]
    system.stage.python("web", "-m", "gunicorn", *words, *place, "--worker-class", "gthread")


def _stock_workers(system: System, slots: int) -> list[str]:
    words = ["-A", "benchmarks.peers.stock", "worker", "--pool", "threads"]
    system.stage.python("worker", "-m", "celery", *words, "--concurrency", str(slots))
    system.stage.says("worker", " ready.")
    return ["worker"]


WEB = {"product": _product_web, "source": _source_web, "stock": _stock_web}
WORKERS = {"product": _product_workers, "source": _source_workers, "stock": _stock_workers}


def all_of(stage: Stage, names: list[str]) -> list[System]:
    """The systems of these names, with users and tables made."""
    import psycopg  # noqa: PLC0415  # the environment names the database only now

    peers = [f"user-{number}" for number in range(1, USERS + 1)]
    systems = []
    for name in names:
        if name == "product":
            systems.append(System(name, stage, _product_tokens(), "reports_reportjob"))
        elif name == "source":
            systems.append(System(name, stage, peers, "source_jobs"))
            from benchmarks.peers.source import TABLES  # noqa: PLC0415  # an optional part

            with psycopg.connect(stage.database.url) as connection:
                connection.execute(TABLES)
        else:
            systems.append(System(name, stage, peers, "stock_jobs"))
            child = stage.python("tables", "-m", "benchmarks.peers.stock")
            if child.wait(60):
                sys.exit((stage.directory / "tables.log").read_text())
            stage.started.pop("tables")
        if name != "product":
            with psycopg.connect(stage.database.url) as connection:
                connection.execute(
                    f"INSERT INTO {name}_budgets (user_id, daily_tokens, spent_tokens, day_utc)"  # noqa: S608  # ours
                    f" SELECT n, {2**50}, 0, now() FROM generate_series(1, {USERS}) AS n"
                )
    return systems


def _product_tokens() -> list[str]:
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs django.setup()

    from access.models import Token  # noqa: PLC0415  # likewise

    users = [
        get_user_model()(pk=FIRST_USER + number, username=f"user-{number}")
        for number in range(1, USERS + 1)
    ]
    get_user_model().objects.bulk_create(users)
    return [str(Token.objects.create(user)[1]) for user in users]
