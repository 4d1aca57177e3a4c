"""What import-linter says of the source, seen in a running process, where strings load modules."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import processes

if TYPE_CHECKING:
    import redis

# What the web process does that could load a module late: routes, a page, a publication.
WEB = """
import json, sys, uuid
import reports_project.asgi
from django.test import Client
from reports import dispatch
assert Client().get("/login/", headers={"host": "localhost"}).status_code == 200
assert dispatch.publish(uuid.uuid4())
print(json.dumps(sorted(name for name in sys.modules if name.startswith("reports."))))
"""
OF_THE_WORKER = ("provider", "runner", "sweep", "tasks", "upkeep", "inflight")


@pytest.mark.system
@pytest.mark.django_db
def test_a_web_process_never_loads_what_calls_the_provider(broker: redis.Redis):
    done = subprocess.run(
        [sys.executable, "-c", WEB],
        check=True,
        cwd=processes.ROOT,
        env=processes.environment(),
        stdout=subprocess.PIPE,
    )

    loaded = json.loads(done.stdout)
    assert "reports.api" in loaded
    assert [name for name in loaded if name.split(".")[1] in OF_THE_WORKER] == []
