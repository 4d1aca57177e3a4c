"""The audit of dependencies: a known fault fails; without a network nothing fails or hangs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.processes import ROOT
from tools import audit

if TYPE_CHECKING:
    from pathlib import Path

SOUND = {"name": "django", "version": "5.2.8", "vulns": []}
FAULTY = SOUND | {"vulns": [{"id": "CVE-1", "fix_versions": ["5.2.9"]}]}
UNKNOWN = {"name": "django", "skip_reason": "not found"}


def stand_in(*packages: dict[str, Any]) -> tuple[str, ...]:
    """A program that answers like pip-audit, about these packages."""
    said = json.dumps({"dependencies": packages, "fixes": []})
    return (sys.executable, "-c", f"print({said!r}); raise SystemExit(1)")


@pytest.fixture
def requirements(tmp_path: Path) -> str:
    """Two pins as `make lock` writes them."""
    file = tmp_path / "requirements.txt"
    pins = ["a==1.0 \\", "    --hash=sha256:00", "# c==3", "b-b[x]==2.0 ; sys_platform == 'y' \\"]
    file.write_text("\n".join(pins))
    return str(file)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        (stand_in(SOUND), 0, "no fault is known in the 1 packages"),
        (stand_in(FAULTY), 1, "django 5.2.8 has CVE-1, mended in 5.2.9"),
        (stand_in(UNKNOWN), 0, "could not ask"),
        (stand_in(SOUND, UNKNOWN), 0, "nobody would tell about django"),
        (stand_in(FAULTY, UNKNOWN), 1, "nobody would tell about django"),
        (stand_in(), 0, "could not ask"),
        ((sys.executable, "-c", "raise SystemExit('no network')"), 0, "could not ask"),
    ],
)
def test_only_a_known_fault_fails(
    requirements: str,
    capsys: pytest.CaptureFixture[str],
    program: tuple[str, ...],
    status: int,
    words: str,
):
    assert audit.main(requirements, program) == status
    assert words in capsys.readouterr().out


def test_who_does_not_answer_in_time_is_not_waited_for(
    requirements: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit, "LIMIT_S", 0.2)
    silent = (sys.executable, "-c", "import time; time.sleep(60)")

    assert audit.main(requirements, silent) == 0
    assert "could not ask" in capsys.readouterr().out


def test_every_pin_is_asked_about(requirements: str):
    assert audit.PIN.findall((ROOT / requirements).read_text()) == ["a==1.0", "b-b[x]==2.0"]
    assert len(audit.PIN.findall((ROOT / "requirements.txt").read_text())) > 40
