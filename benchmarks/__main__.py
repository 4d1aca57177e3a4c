"""`make bench`: one table of what the product reaches, beside its peers and the raw limits.

    make bench [ARGS="--rows 1000000,10000000 --parts accept,growth --for-s 8 --rounds 2"]

Everything is a ratio within one run: absolute figures swing with whatever else the machine does.
PostgreSQL runs durable (fsync, synchronous_commit), driver and all processes on this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks import growth, limits, measures, stage as staging, systems

if TYPE_CHECKING:
    from benchmarks.stage import Stage
    from benchmarks.systems import System

PARTS = ("limits", "accept", "completed", "poll", "idle", "hot", "held", "growth")
PEERS = ("product", "source", "stock")
CALLS_HELD = 1000
HELD_FOR_S = 30.0
PROMPT = "Why is the sky blue, and why are sunsets red? Explain it to a child."


@dataclass(slots=True)
class Table:
    """What was measured, and how it relates."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        """One more round of a measurement."""
        self.values.setdefault(name, []).append(value)
        sys.stderr.write(f"{name}: {value:.4g}\n")
        sys.stderr.flush()

    def of(self, name: str) -> float | None:
        """The median of its rounds."""
        return median(self.values[name]) if name in self.values else None

    def row(self, what: str, name: str, unit: str, *ratios: tuple[str, str]) -> None:
        """Print one line, with the ratio to each measurement that was made."""
        value = self.of(name)
        if value is None:
            return
        told = []
        for label, other in ratios:
            base = self.of(other)
            if base:
                told.append(f"{value / base:.2f} of {label}")
        sys.stdout.write(f"| {what} | {value:,.4g} {unit} | {', '.join(told)} |\n")


def main() -> int:
    """Measure what was asked for and print the table."""
    given = _read_words()
    parts: list[str] = given.parts.split(",")
    with staging.set_up() as stage:
        import django  # noqa: PLC0415  # the environment is only there now
        from django.core.management import call_command  # noqa: PLC0415  # likewise

        django.setup()
        call_command("migrate", verbosity=0, interactive=False)
        table = Table()
        found = systems.all_of(stage, given.systems.split(","))
        users, operator = _people()
        if "limits" in parts:
            _limits(stage, table, users, found, for_s=given.for_s)
        for _ in range(given.rounds):
            for system in found:
                _side_by_side(system, table, parts, for_s=given.for_s)
        product = found[0]
        if "held" in parts:
            _held(product, table)
        if "growth" in parts:
            sizes = [int(rows) for rows in given.rows.split(",")]
            _growth(product, table, sizes, users, operator, rounds=given.rounds)
        _print(table)
    return 0


def _read_words() -> argparse.Namespace:
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--rows", default="1000000")
    words.add_argument("--parts", default=",".join(PARTS))
    words.add_argument("--systems", default=",".join(PEERS))
    words.add_argument("--for-s", type=float, default=8.0)
    words.add_argument("--rounds", type=int, default=2)
    given = words.parse_args()
    if unknown := set(given.parts.split(",")) - set(PARTS):
        words.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if not given.systems.startswith("product"):
        words.error("the product goes first, the others are what it is compared with")
    return given


def _people() -> tuple[list[Any], Any]:
    from django.contrib.auth import get_user_model  # noqa: PLC0415  # needs django.setup()

    users = list(get_user_model().objects.order_by("pk"))
    return users, get_user_model().objects.create_superuser(
        "operator", password=os.urandom(9).hex()
    )


def _limits(
    stage: Stage, table: Table, users: list[Any], found: list[System], *, for_s: float
) -> None:
    scripts = limits.scripts([user.pk for user in users])
    if "source" in [system.name for system in found]:
        scripts = {"plain": limits.PLAIN, **scripts}
    for name, text in scripts.items():
        table.add(f"limit {name}", limits.run(stage, name, text, for_s=for_s))
    table.add("limit celery", limits.celery(stage, tasks=3000))


def _side_by_side(system: System, table: Table, parts: list[str], *, for_s: float) -> None:
    name = system.name
    system.start_web()
    measures.clear(system)
    measures.accept(system, for_s=2.0)
    if "accept" in parts:
        load = measures.accept(system, for_s=for_s)
        table.add(f"{name} accept", load.per_s)
        table.add(f"{name} accept p50", load.at(50))
        table.add(f"{name} accept p99", load.at(99))
        load = measures.accept_beside(
            system, for_s=for_s, delay_s=measures.HELD_FOR_S, slots=systems.HELD
        )
        table.add(f"{name} accept held", load.per_s)
        table.add(f"{name} accept held p50", load.at(50))
        table.add(f"{name} accept held p99", load.at(99))
    if "accept" in parts and name == "product":
        _accept_otherwise(system, table, for_s=for_s)
    if "completed" in parts:
        table.add(f"{name} completed", measures.completed(system, jobs=2000))
    if "poll" in parts:
        whole, unchanged = measures.poll(system, for_s=for_s / 2)
        table.add(f"{name} poll", whole.per_s)
        if unchanged:
            table.add(f"{name} poll 304", unchanged.per_s)
    if "idle" in parts:
        table.add(f"{name} started", measures.started_after_ms(system, jobs=60))
    if "hot" in parts and name == "product":
        table.add("product hot", measures.accept(system, for_s=for_s, users=1).per_s)
    system.stop()


def _accept_otherwise(system: System, table: Table, *, for_s: float) -> None:
    beside, hangs = measures.accept_beside, measures.FOR_EVER_S
    slots = measures.DEFAULT_SLOTS
    loads = {
        "fast": beside(system, for_s=for_s, delay_s=0.01, slots=1),
        "hangs": beside(system, for_s=for_s, delay_s=hangs, slots=slots),
        "no broker": measures.accept_without_broker(system, for_s=for_s),
    }
    for what, load in loads.items():
        table.add(f"accept {what}", load.per_s)
        table.add(f"accept {what} p50", load.at(50))
        table.add(f"accept {what} p99", load.at(99))
        table.add(f"accept {what} most", load.most)


def _held(product: System, table: Table) -> None:
    product.start_web()
    seen = measures.held(product, calls=CALLS_HELD, delay_s=HELD_FOR_S)
    table.add("held memory", seen.memory_mb / (seen.calls / 100))
    table.add("held connections", seen.connections)
    table.add("held threads", seen.threads)
    table.add("held done", seen.all_done_after_s)
    product.stop()


def _growth(
    product: System,
    table: Table,
    sizes: list[int],
    users: list[Any],
    operator: Any,
    *,
    rounds: int,
) -> None:
    for rows in sizes:
        measures.clear(product)
        growth.make_twin()
        growth.fill(rows, user=users[0].pk, users=len(users))
        for _ in range(rounds):
            with growth.in_twin():
                _add(table, f"beside {rows}", growth.costs(users, product.tokens[0], operator))
            _add(table, f"at {rows}", growth.costs(users, product.tokens[0], operator))


def _add(table: Table, where: str, found: dict[str, float]) -> None:
    for what, took_ms in found.items():
        table.add(f"{what} {where}", took_ms)


def _print(table: Table) -> None:
    sys.stdout.write("| what | measured | ratios |\n| --- | --- | --- |\n")
    row = table.row
    row("limit: pgbench, accept on two plain tables, 4 round trips", "limit plain", "/s")
    for name in ("accept", "job", "hot", "poll"):
        row(f"limit: pgbench, our statements of {name}", f"limit {name}", "/s")
    row("limit: bare Celery, one worker, tasks that do nothing", "limit celery", "/s")
    for name in PEERS:
        to = (("the source design", "source accept"), ("stock", "stock accept"))
        row(f"{name}: accept", f"{name} accept", "/s", ("the plain limit", "limit plain"), *to)
        row(f"{name}: accept p50", f"{name} accept p50", "ms")
        row(f"{name}: accept p99", f"{name} accept p99", "ms")
        held = f"{name} accept held"
        row(f"{name}: accept, 200 held", held, "/s", ("its own idle", f"{name} accept"))
        for cut in ("p50", "p99"):
            own = ("its own idle", f"{name} accept {cut}")
            row(f"{name}: accept, 200 held, {cut}", f"{held} {cut}", "ms", own)
    for what in ("fast", "hangs", "no broker"):
        row(f"accept, {what}", f"accept {what}", "/s", ("its own idle", "product accept"))
        own = ("its own idle", "product accept p50")
        row(f"accept, {what}, p50", f"accept {what} p50", "ms", own)
        row(f"accept, {what}, p99", f"accept {what} p99", "ms", ("idle", "product accept p99"))
        row(f"accept, {what}, slowest", f"accept {what} most", "ms")
    for name in PEERS:
        to = (("the source design", "source completed"), ("stock", "stock completed"))
        row(f"{name}: completed", f"{name} completed", "/s", ("bare Celery", "limit celery"), *to)
    for name in PEERS:
        to = (("the limit", "limit poll"), ("the source design", "source poll"))
        row(f"{name}: poll", f"{name} poll", "/s", *to, ("stock", "stock poll"))
    row("product: poll, unchanged", "product poll 304", "/s", ("200", "product poll"))
    for name in PEERS:
        row(f"{name}: POST to call, p50", f"{name} started", "ms")
    row("product: accept, one user", "product hot", "/s", ("the limit", "limit hot"))
    row("1,000 calls of 30 s: memory per 100", "held memory", "MB")
    row("1,000 calls of 30 s: connections", "held connections", "")
    row("1,000 calls of 30 s: threads", "held threads", "")
    row("1,000 calls of 30 s: all done after", "held done", "s")
    for name in [name for name in table.values if " at " in name]:
        what, _, rows = name.rpartition(" at ")
        row(f"{what}, {int(rows):,} rows", name, "ms", ("the empty table", f"{what} beside {rows}"))


if __name__ == "__main__":
    sys.exit(main())
