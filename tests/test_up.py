"""`make up` as a newcomer meets it: in a fresh copy of the project, with an empty environment."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import requests

from tests.support import processes
from tests.support.waiting import until
from tools import children, valkey

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".env", "var", "__pycache__", ".*_cache")


@dataclass(frozen=True, slots=True)
class Fresh:
    """A copy of the project in which nothing has run yet."""

    directory: Path
    mark: str
    port: int
    started: list[processes.Process] = field(default_factory=list)

    def environment(self, **variables: str) -> dict[str, str]:
        """As empty as a shell's can be."""
        path = os.environ.get("PATH", os.defpath)
        own = {"PATH": path, "PORT": str(self.port), processes.MARK: self.mark}
        return own | variables

    def start(self, **variables: str) -> processes.Process:
        """`make up` in a session of its own, as in a terminal."""
        log = self.directory.with_suffix(".log")
        environment = self.environment(**variables)
        command = ["make", "up"]
        child = children.spawn(command, log=log, environment=environment, directory=self.directory)
        process = processes.Process("make up", child, log)
        self.started.append(process)
        return process

    def run(self, **variables: str) -> list[str]:
        """`make up` that is expected to fail; returns what it said about it."""
        process = self.start(**variables)
        status = process.child.wait(90)
        processes.assert_nothing_left(self.mark)
        assert status == 2  # make's own; the program's was 1, as its last line tells
        lines = process.said().splitlines()
        assert re.fullmatch(r"make: \*\*\* \[Makefile:\d+: up\] Error 1", lines.pop())
        return [line for line in lines if "checking the variables" not in line]


@pytest.fixture
def fresh(tmp_path: Path) -> Generator[Fresh]:
    """The copy shares the tests' virtual environment: making one is .ci/run's to show."""
    directory = tmp_path / "project"
    shutil.copytree(processes.ROOT, directory, ignore=NOT_COPIED)
    (directory / ".venv").symlink_to(sys.prefix)
    (directory / ".venv" / "up.stamp").touch()
    copy = Fresh(directory, uuid4().hex, valkey.free_port())
    yield copy
    for process in copy.started:
        process.kill()
    processes.assert_nothing_left(copy.mark)


def ready(process: processes.Process) -> str:
    """What it printed, once it printed its welcome."""
    try:
        children.wait_until(
            lambda: "Ctrl-C stops everything." in process.said(),
            child=process.child,
            name=process.name,
            within_s=90,
        )
    except children.StartFailed as failure:
        raise AssertionError(f"{failure}\n{process.said()}") from failure
    return process.said()


def curl(said: str, *, ordinal: int) -> list[str]:
    """The words of a printed curl command, as a shell would split them."""
    commands = re.findall(r"^ {4}(curl (?:.*\\\n)*.*)$", said, re.MULTILINE)
    return shlex.split(commands[ordinal].replace("\\\n", " "))


def mode(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_newcomer_gets_an_answer_and_ctrl_c_leaves_nothing(fresh: Fresh):
    process = fresh.start()
    said = ready(process)
    address = f"http://127.0.0.1:{fresh.port}"

    assert f"Ready: {address}/" in said
    subprocess.run(curl(said, ordinal=0), check=True, timeout=30, stdout=subprocess.DEVNULL)
    token = re.search(r"Bearer (\w+)", said)
    assert token is not None
    job = until(
        lambda: requests.get(
            f"{address}/reports", headers={"Authorization": token[0]}, timeout=10
        ).json()["results"][0],
        lambda job: job["status"] == "succeeded",
        within_s=30,
    )
    assert job["http_status"] == 200
    # At the same address, though another process answers.
    told = requests.get(
        f"{address}/reports/{job['job_id']}/events",
        headers={"Authorization": token[0]},
        timeout=30,
    )
    assert '"status":"succeeded"' in told.text

    os.killpg(process.pid, signal.SIGINT)
    process.child.wait(60)

    processes.assert_nothing_left(fresh.mark)
    assert "make up: stopped" in process.said()
    assert mode(fresh.directory / "var") == 0o700
    assert mode(fresh.directory / "var" / "secret_key") == 0o600
    assert mode(fresh.directory / "var" / "demo.json") == 0o600


def test_sigterm_stops_everything_and_the_next_start_keeps_the_login(fresh: Fresh):
    first = fresh.start()
    login = re.search(r"Sign in as .*", ready(first))
    first.child.send_signal(signal.SIGTERM)
    first.child.wait(60)
    processes.assert_nothing_left(fresh.mark)

    first.log.write_text("")
    second = fresh.start()
    again = re.search(r"Sign in as .*", ready(second))
    second.child.send_signal(signal.SIGTERM)
    second.child.wait(60)

    assert login is not None
    assert again is not None
    assert again[0] == login[0]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("worker", "worker"),
        ("provider", "rehearsal_provider"),
        ("broker", "valkey-server"),
    ],
)
def test_a_process_that_dies_takes_all_with_it_and_is_named(fresh: Fresh, name: str, word: str):
    process = fresh.start()
    ready(process)

    os.kill(processes.find(fresh.mark, word), signal.SIGKILL)
    process.child.wait(60)

    processes.assert_nothing_left(fresh.mark)
    assert f"make up: {name} ended (killed by SIGKILL)" in process.said()


def test_a_taken_port_is_one_line(fresh: Fresh):
    with socket.create_server(("127.0.0.1", fresh.port)):
        [line] = fresh.run()

    assert line.startswith(f"make up: PORT: {fresh.port} cannot be used (Address already in use)")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "REDIS_URL: the broker cannot be reached"),
        ({"DATABASE_URL": "postgres://a@127.0.0.1:1/b"}, "DATABASE_URL: the database cannot be"),
        ({"PORT": "seventy"}, "PORT: must be a whole number"),
        ({"QUEUE_TTL_S": "soon"}, "QUEUE_TTL_S: must be a number of seconds"),
        ({"INFERENCE_URL": "provider.example"}, "INFERENCE_URL: must be an absolute"),
        ({"MODEL": "huge"}, "MODEL: must be local, or unset"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(fresh: Fresh, variables: dict[str, str], expected: str):
    [line] = fresh.run(**variables)

    assert line.startswith(f"make up: {expected}")


def test_a_env_file_is_read(fresh: Fresh):
    (fresh.directory / ".env").write_text("QUEUE_TTL_S=soon\n")

    [line] = fresh.run()

    assert line.startswith("make up: QUEUE_TTL_S:")


def test_a_missing_python_is_one_line(fresh: Fresh, tmp_path: Path):
    """PATH holds the few commands that the script needs, and no Python."""
    (fresh.directory / ".venv").unlink()
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("make", "sh", "env", "rm", "echo"):
        (tools / name).symlink_to(shutil.which(name) or f"/bin/{name}")

    done = subprocess.run(
        ["make", "up"],
        check=False,
        cwd=fresh.directory,
        env=fresh.environment(PATH=str(tools)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2
    [line, make] = done.stderr.splitlines()
    assert line.startswith("Python 3.11 or newer is needed and was not found")
    assert make.startswith("make: *** ")
