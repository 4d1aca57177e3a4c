"""`python -m tools.chaos`: load and faults for a while, then quiet, then the verdict."""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tools import children, postgres, valkey
from tools.chaos import books as bookkeeping
from tools.chaos.faults import Faults
from tools.chaos.load import Load
from tools.chaos.receiver import Receiver, end_leases, faults as faults_of_telling, is_waiting
from tools.chaos.stack import PROMISE_S, ROOT, Stack, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

USERS = 6
TIGHT_CAP = 20_000  # of the last user, whose day runs out under the load
LOOK_EVERY_S = 0.05
SLACK_S = 30.0  # for processes to come up on a loaded machine before the promise counts
ANSWERED_WITHIN_S = 60.0
LISTENERS = 3  # users with a webhook
TOLD_WITHIN_S = 120.0  # who begins an attempt only now and is slow keeps it for its lease
SHOWN = 40


def main() -> int:
    """Exit status 0 only if both books are clean."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logs = ROOT / "var" / "chaos" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    logs.mkdir(parents=True)
    _say(f"seed {options.seed}, logs in {logs.relative_to(ROOT)}")
    # As root PostgreSQL runs under another account, which must be able to pass through.
    parent = "/tmp" if os.geteuid() == 0 else None  # noqa: S108  # mkdtemp makes the name safe
    directory = Path(tempfile.mkdtemp(prefix="reports-chaos-", dir=parent))
    directory.chmod(0o711)
    try:
        with ExitStack() as ending:
            return _run(options, directory, logs, ending)
    except children.StartFailed as failure:
        _say(str(failure))
        return 1
    finally:
        for log in (*directory.glob("*/postgresql.log"), *directory.glob("*/valkey.log")):
            shutil.copy(log, logs)
        shutil.rmtree(directory)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="of faults, at least")
    parser.add_argument("--jobs", type=int, default=0, help="go on until so many are accepted")
    parser.add_argument("--every", type=float, default=0.9, help="mean seconds between faults")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    return parser.parse_args()


def _run(options: argparse.Namespace, directory: Path, logs: Path, ending: ExitStack) -> int:
    database = ending.enter_context(postgres.running(directory / "pg"))
    broker = ending.enter_context(valkey.running(directory / "valkey"))
    stack = Stack(database, broker, logs)
    ending.callback(stack.close)
    provider = stack.start()
    ending.callback(children.stop, provider, by=signal.SIGTERM, within_s=10)
    names = [f"user-{number}" for number in range(USERS)]
    bearer = tokens(stack, names)
    user_ids = _user_ids(stack, names)
    receiver = ending.enter_context(Receiver(options.seed))
    receiver.subscribe(stack, user_ids[:LISTENERS])
    load = Load(stack.addresses, bearer, options.seed)
    faults = Faults(stack, load, options.seed)
    broken_s = _break(options, stack, load, faults)
    quiet_s = _calm(stack, load, faults)
    end_leases(stack)
    told_s = _wait(lambda: not is_waiting(stack), stack, until=time.monotonic() + TOLD_WITHIN_S)
    checked = stack.manage("check_invariants")
    said, _ = checked.communicate()
    books = bookkeeping.Books.read(stack)
    books.keep(logs / "jobs.jsonl")
    _report(books, stack, load, faults, broken_s, quiet_s)
    for line in bookkeeping.verdict(books, stack, load.answers, user_ids, bearer):
        _say(line)
    amiss = books.judge("webhooks", faults_of_telling(stack, receiver))
    _say(
        f"the receiver's book     {len(receiver.came)} messages, {receiver.came.total()} attempts, "
        f"{amiss} endings not told or told wrongly, the last {told_s:.0f} s after the quiet"
    )
    _say(f"check_invariants        {said.strip()}")
    if checked.returncode:
        books.judge("check_invariants", said.splitlines())
    return _conclude(books, options.seed)


def _user_ids(stack: Stack, names: Sequence[str]) -> list[int]:
    """The users' ids in order; the last one gets a small allowance."""
    with stack.connect() as connection:
        rows = connection.execute("SELECT username, id FROM auth_user").fetchall()
        ids = dict(rows)
        connection.execute(
            "INSERT INTO budgets_inferencebudget (user_id, daily_tokens, spent_tokens, active_jobs)"
            " VALUES (%s, %s, 0, 0)",
            [ids[names[-1]], TIGHT_CAP],
        )
    return [ids[name] for name in names]


def _break(options: argparse.Namespace, stack: Stack, load: Load, faults: Faults) -> float:
    began = time.monotonic()
    _say(f"{len(stack.members)} processes run; faults for {options.seconds:g} s")
    load.start()
    next_fault = began + 1
    try:
        while time.monotonic() < began + options.seconds or load.accepted < options.jobs:
            faults.undo_due()
            stack.keep()
            if time.monotonic() >= next_fault:
                faults.strike()
                next_fault = time.monotonic() + faults.pause_s(options.every)
            time.sleep(LOOK_EVERY_S)
    except BaseException:
        load.stop(within_s=0)
        raise
    return time.monotonic() - began


def _calm(stack: Stack, load: Load, faults: Faults) -> float:
    """Undo what is still broken and wait until every job has its end; returns the seconds."""
    began = time.monotonic()
    faults.undo_due(all_of_them=True)
    stack.keep()
    load.stop(within_s=ANSWERED_WITHIN_S)
    _wait(lambda: _active(stack) == 0, stack, until=began + PROMISE_S + SLACK_S)
    return time.monotonic() - began


def _wait(is_done: Callable[[], bool], stack: Stack, *, until: float) -> float:
    began = time.monotonic()
    while not is_done() and time.monotonic() < until:
        stack.keep()
        time.sleep(LOOK_EVERY_S)
    return time.monotonic() - began


def _active(stack: Stack) -> int:
    with stack.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM reports_reportjob WHERE finished_at IS NULL"
        ).fetchone()
    return int(row[0]) if row else 0


def _report(
    books: bookkeeping.Books,
    stack: Stack,
    load: Load,
    faults: Faults,
    broken_s: float,
    quiet_s: float,
) -> None:
    _say(f"time                    {broken_s:.0f} s of faults, {quiet_s:.1f} s of quiet to the end")
    _say(f"load                    {load.accepted} jobs accepted; {_list(load.answers.counts)}")
    _say(f"faults                  {faults.total}: {_list(faults.counts)}")
    _say(f"  of them               {_list(faults.details)}")
    _say(
        f"restarted               {len(stack.ended_alone)} that ended by themselves "
        f"({', '.join(stack.ended_alone) or 'none'}); slowest end after SIGTERM "
        f"{stack.slowest_end_s:.1f} s"
    )
    _say(f"endings                 {_list(books.endings())}")


def _list(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items())) or "none"


def _conclude(books: bookkeeping.Books, seed: int) -> int:
    for line in books.faults[:SHOWN]:
        _say(f"  OFF: {line}")
    if len(books.faults) > SHOWN:
        _say(f"  and {len(books.faults) - SHOWN} more")
    _say(f"verdict                 {'NOT CLEAN' if books.faults else 'CLEAN'} (seed {seed})")
    return 1 if books.faults else 0


def _say(line: str) -> None:
    sys.stdout.write(f"chaos: {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
