"""Run what DATABASE_URL and REDIS_URL do not name, until standard input closes.

TEST_DATABASE=sqlite asks for a new SQLite file instead of any PostgreSQL.

The tests start this as a child and hold the other end of the pipe: however they end, also killed,
the pipe closes and nothing is left running.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tools import children, postgres, valkey


def serve(directory: Path) -> None:
    """Start, say where on one line of JSON, and stop when nobody listens any more."""
    with ExitStack() as stack:
        where: dict[str, str] = {}
        if os.environ.get("TEST_DATABASE") == "sqlite":
            where["DATABASE_URL"] = f"sqlite:///{directory / 'reports.sqlite3'}"
        elif not os.environ.get("DATABASE_URL"):
            where["DATABASE_URL"] = stack.enter_context(postgres.running(directory / "pg")).url
        if not os.environ.get("REDIS_URL"):
            where["REDIS_URL"] = stack.enter_context(valkey.running(directory / "valkey")).url
        sys.stdout.write(json.dumps(where) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


def main() -> int:
    """Work in a temporary directory, away from home folders, which others may not enter."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # As root PostgreSQL runs under another account, which must be able to pass through.
    parent = "/tmp" if os.geteuid() == 0 else None  # noqa: S108  # mkdtemp makes the name safe
    directory = Path(tempfile.mkdtemp(prefix="reports-tests-", dir=parent))
    directory.chmod(0o711)
    try:
        serve(directory)
    except children.StartFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    finally:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
