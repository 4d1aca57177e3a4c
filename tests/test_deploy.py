"""The files of deploy/ run what the Procfile runs, and name variables that exist."""

from __future__ import annotations

import json
import re
import shlex
import subprocess

import pytest

from tests.support import processes
from tests.support.processes import ROOT
from tests.test_house import variables

UNITS = {"release": "reports-release", "web": "reports-web"}
UNITS |= {"worker": "reports-worker@", "beat": "reports-beat", "events": "reports-events"}
CONTAINERFILE = (ROOT / "Containerfile").read_text()


def health_check() -> list[str]:
    """The words of the container's health check."""
    found = re.search(r"^HEALTHCHECK .*? CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    assert found is not None
    words: list[str] = json.loads(found[1])
    return words


def check_health(port: str) -> int:
    """Its exit status."""
    environment = {**processes.environment(), "PORT": port}
    return subprocess.run(
        health_check(), check=False, env=environment, capture_output=True
    ).returncode


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_runs_what_the_procfile_runs(name: str):
    unit = (ROOT / "deploy" / "systemd" / f"{UNITS[name]}.service").read_text()

    [command] = re.findall(r"^ExecStart=/opt/reports/\.venv/bin/(.*)$", unit, re.MULTILINE)
    assert f"exec {command}" == processes.procfile()[name]


def test_the_example_of_an_environment_names_variables_that_exist():
    lines = (ROOT / "deploy" / "reports.env").read_text().splitlines()
    names = [line.partition("=")[0] for line in lines if line and not line.startswith("#")]

    assert {"SECRET_KEY", "DATABASE_URL", "REDIS_URL", "INFERENCE_URL"} <= set(names)
    assert set(names) <= set(variables())


def test_a_container_runs_what_the_procfile_runs():
    [words] = re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)

    assert shlex.join(["exec", *json.loads(words)]) == processes.procfile()["web"]


def test_nothing_of_the_product_is_left_out_of_a_container():
    left_out = set((ROOT / ".dockerignore").read_text().split())
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}

    needed = packages - {"tests", "benchmarks"} | {"templates", "static", "manage.py"}
    assert needed & left_out == set()
    assert {".env", ".git", "var"} <= left_out


@pytest.mark.system
def test_the_health_check_of_a_container_tells_alive_from_dead(
    processes: processes.Processes,
):
    port = processes.web().rpartition(":")[2]

    alive = check_health(port)
    processes.started[-1].kill()

    assert alive == 0
    assert check_health(port) == 1
