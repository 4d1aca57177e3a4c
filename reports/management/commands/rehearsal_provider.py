"""`manage.py rehearsal_provider`: run a provider without a model, whose faults can be asked for."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from reports.rehearsal import FAULTS, Rehearsal

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Command(BaseCommand):
    """Serve until SIGINT or SIGTERM."""

    help = (
        "Run a provider without a model, for rehearsing the ugly path. It speaks both protocols: "
        "chat completions where the path ends in /chat/completions, else prompt. A prompt asks "
        f"for a fault by a marker such as [[rehearse:503]]: {', '.join(FAULTS)} (slow:N takes N s)."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Where to listen, how slow to be, and where to keep the book."""
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8099, help="0 takes any free one")
        parser.add_argument("--latency", type=float, default=0.0, metavar="SECONDS")
        parser.add_argument(
            "--call-log", type=Path, metavar="FILE", help="append a line of JSON per request"
        )

    def handle(
        self,
        *args: Any,
        host: str,
        port: int,
        latency: float,
        call_log: Path | None,
        **options: Any,
    ) -> None:
        """Raise CommandError if the port or the file cannot be had."""

        def ready(taken: int) -> None:
            self.stdout.write(f"The rehearsal provider listens on http://{host}:{taken}/complete")
            self.stdout.flush()

        with ExitStack() as stack:
            try:
                book = stack.enter_context(call_log.open("a")) if call_log else None
                rehearsal = Rehearsal(latency_s=latency, call_log=book)
                asyncio.run(rehearsal.serve(host, port, ready=ready))
            except OSError as problem:
                raise CommandError(f"Cannot start: {problem.strerror or problem}") from problem
