"""A short chaos on every change; `make chaos` is the long one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.support.processes import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]


def test_nothing_is_lost_and_nothing_called_twice_while_everything_breaks():
    command = [sys.executable, "-m", "tools.chaos", "--seconds", "20", "--jobs", "100"]

    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=400
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^chaos: verdict +CLEAN \(seed \d+\)$", done.stdout, re.MULTILINE)
    faults = re.search(r"^chaos: faults +(\d+):", done.stdout, re.MULTILINE)
    assert faults is not None
    assert int(faults[1]) >= 10
