"""Schemathesis calls every operation of the document with what it allows and what it forbids."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from openapi.document import document
from tests.support.processes import ROOT
from tests.support.waiting import until
from tests.system.parts import SOON_S, ready
from tools import valkey

if TYPE_CHECKING:
    from tests.support.clients import Api
    from tests.support.processes import Processes

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
ROOMY = {"DAILY_TOKEN_CAP": "1000000000", "MAX_ACTIVE_JOBS_PER_USER": "100000"}


def configuration(folder: Path, *peers: Api) -> Path:
    """The repository's own, with people who must not see each other's jobs."""
    people = folder / "people.json"
    entries = [
        {
            "name": peer.user.get_username(),
            "fixedHeaders": [{"name": "Authorization", "value": f"Bearer {peer.token}"}],
        }
        for peer in peers
    ]
    people.write_text(json.dumps({"auth": entries}))
    names = json.dumps([entry["name"] for entry in entries])
    own = (ROOT / "schemathesis.toml").read_text()
    whole = folder / "schemathesis.toml"
    whole.write_text(f"{own}\n[auth.wfc]\npath = {json.dumps(str(people))}\npeers = {names}\n")
    return whole


def test_the_api_does_what_its_document_says(crew: Processes, ada: Api, bob: Api, tmp_path: Path):
    crew.worker()
    port = str(valkey.free_port())
    crew.events(EVENTS_PORT=port, **ROOMY)
    address = crew.web(EVENTS_PORT=port, **ROOMY)
    until(lambda: ready(address), lambda seen: seen[0] == 200, within_s=SOON_S)

    program = Path(sys.executable).parent / "schemathesis"
    command = [str(program), "--config-file", str(configuration(tmp_path, ada, bob))]
    command += ["run", f"{address}/schema"]
    command += ["--checks", "all", "--max-response-time", "5", "--no-color"]
    run = subprocess.run(
        command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=150
    )

    assert run.returncode == 0, run.stdout + run.stderr
    # All but the one that the document came from.
    how_many = sum(len(operations) for operations in document()["paths"].values()) - 1
    assert f"{how_many} selected / {how_many} total" in run.stdout
    assert "Traceback" not in crew.started[-1].said()
