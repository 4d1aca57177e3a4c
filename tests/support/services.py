"""A pytest plugin: the environment of the tests, with a real database and a real broker in it."""

from __future__ import annotations

import atexit
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

ROOT = Path(__file__).resolve().parent.parent.parent
# Tests call no provider but their own, and a developer's .env does not change what they expect.
ENVIRONMENT = {
    "PYTHON_DOTENV_DISABLED": "1",
    "DEBUG": "1",
    "INFERENCE_URL": "http://127.0.0.1:9/complete",
    "INFERENCE_KEY": "",
}
_keeper: subprocess.Popen[str] | None = None


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Before pytest-django reads the settings: a wrapper runs ahead of every other plugin."""
    os.environ.update(ENVIRONMENT, SECRET_KEY=secrets.token_urlsafe(48))
    options = early_config.known_args_namespace
    # Each of several test processes has services of its own; the one above them runs no test.
    is_above = bool(getattr(options, "numprocesses", None)) and not is_one_of_several()
    if not (options.help or options.version or options.collectonly or is_above):
        _start()
    return (yield)


def pytest_unconfigure() -> None:
    """Let go of the services and wait until they are gone."""
    global _keeper  # noqa: PLW0603
    if _keeper is not None:
        _keeper.communicate(timeout=60)
        _keeper = None


def is_one_of_several() -> bool:
    """Whether this process shares the tests with others (pytest-xdist)."""
    return "PYTEST_XDIST_WORKER" in os.environ


def _start() -> None:
    global _keeper  # noqa: PLW0603  # one set of services a process, like pytest's own configuration
    _keeper = subprocess.Popen(
        [sys.executable, "-m", "tools.services"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # A Ctrl-C is for pytest, which lets go of the services once the tests have ended.
        start_new_session=True,
    )
    atexit.register(pytest_unconfigure)  # which one of several is never told
    assert _keeper.stdout is not None
    line = _keeper.stdout.readline()
    if not line:
        pytest.exit("the services of the tests did not start", returncode=1)
    os.environ.update(json.loads(line))
