"""Runs named processes side by side, shows what they say, and ends them all together."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from tools import children

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

WIDTH = 8


class StopRequested(Exception):
    """Somebody pressed Ctrl-C or sent SIGTERM."""


@dataclass(slots=True)
class Supervisor:
    """Processes by name. A first signal asks them to end, a second one kills them."""

    stop_after_s: float = 60.0
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _readers: list[threading.Thread] = field(default_factory=list)
    _signals: int = 0

    def listen(self) -> None:
        """Take SIGINT, SIGTERM and SIGHUP from now on."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._count)

    def _count(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a process whose lines are shown with its name in front."""
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        assert child.stdout is not None  # noqa: S101  # for the type checker: we asked for a pipe
        reader = threading.Thread(target=_show, args=(name, child.stdout), daemon=True)
        reader.start()
        self._readers.append(reader)
        self.watch(name, child)

    def watch(self, name: str, child: subprocess.Popen[bytes]) -> None:
        """While waiting, mind a process that somebody else started and will stop."""
        self._running[name] = child

    def wait(self, is_done: Callable[[], bool], *, within_s: float = float("inf")) -> None:
        """Return once the condition holds.

        Raises StopRequested after a signal, StartFailed when a process ends or time runs out.
        """
        deadline = time.monotonic() + within_s
        while not is_done():
            if self._signals:
                raise StopRequested
            for name, child in self._running.items():
                if child.poll() is not None:
                    raise children.StartFailed(f"{name} ended ({_how(child.returncode)})")
            if time.monotonic() > deadline:
                raise children.StartFailed(f"not ready within {within_s:g} seconds")
            time.sleep(0.1)

    def stop(self, *names: str) -> None:
        """End the named processes at the same time, and all that they started."""
        stopping = [self._running.pop(name) for name in names if name in self._running]
        for child in stopping:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        seen = self._signals
        deadline = time.monotonic() + self.stop_after_s
        while any(child.poll() is None for child in stopping):
            if self._signals > seen or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for child in stopping:
            children.kill_group(child)
            child.wait()

    def close(self) -> None:
        """Show the last lines of processes that have ended."""
        for reader in self._readers:
            reader.join(5)


def _show(name: str, output: IO[bytes]) -> None:
    with output:
        for line in output:
            text = line.decode(errors="replace").rstrip()
            sys.stdout.write(f"{time.strftime('%H:%M:%S')} {name:<{WIDTH}}| {text}\n")
            sys.stdout.flush()


def _how(returncode: int) -> str:
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"exit status {returncode}"
