"""Child processes of the tools: started in a group of their own, watched, ended as a group."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

POLL_S = 0.02


class StartFailed(Exception):
    """Something that must run does not; the message is one line for a person."""


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    user: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, so that a Ctrl-C reaches it only through us."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )


def wait_until(
    is_ready: Callable[[], bool], *, child: subprocess.Popen[bytes], name: str, within_s: float
) -> None:
    """Return once the condition holds; raise StartFailed when the child ends or time runs out."""
    deadline = time.monotonic() + within_s
    while not is_ready():
        if child.poll() is not None:
            raise StartFailed(f"{name} ended while starting (exit status {child.returncode})")
        if time.monotonic() > deadline:
            raise StartFailed(f"{name} was not ready within {within_s:g} seconds")
        time.sleep(POLL_S)


def accepts(port: int) -> bool:
    """Whether somebody takes connections on a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def stop(child: subprocess.Popen[bytes], *, by: signal.Signals, within_s: float) -> None:
    """Ask the child to end, wait, then kill whatever is left of its process group."""
    if child.poll() is None:
        child.send_signal(by)
        try:
            child.wait(within_s)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    kill_group(child)


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """End what the child started and left behind in its group."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def last_line(log: Path) -> str:
    """The last thing a child said, for a message of one line."""
    lines = log.read_text(errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
