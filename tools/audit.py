"""`make audit`: ask whether what the product runs on has known faults; says so when it cannot ask.

The exit status is 1 only for a fault that is known. Without a network nothing fails and nothing
hangs, but nothing is claimed either.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^]]*\])?==[^ ;\\]+)", re.MULTILINE)
PROGRAM = (str(Path(sys.executable).parent / "pip-audit"),)
OPTIONS = ("--disable-pip", "--no-deps", "--progress-spinner", "off", "--format", "json")
PATIENCE_S = 5
LIMIT_S = 60


def main(requirements: str = "requirements.txt", program: tuple[str, ...] = PROGRAM) -> int:
    """1 when a fault is known, else 0."""
    pins = PIN.findall(Path(requirements).read_text())
    # One first: where nobody answers there is no use in asking about all.
    answer = ask(pins[:1], program)
    if len(unanswered(answer)) < len(answer):
        answer = ask(pins, program)
    if len(unanswered(answer)) == len(answer):
        return _say("could not ask about known faults, so nothing is known of them")
    faults = [fault for package in answer for fault in told(package)]
    for fault in faults:
        _say(fault)
    if unknown := unanswered(answer):
        _say(f"nobody would tell about {', '.join(unknown[:5])}{' ...' if unknown[5:] else ''}")
    elif not faults:
        _say(f"no fault is known in the {len(answer)} packages that the product runs on")
    return 1 if faults else 0


def ask(pins: list[str], program: tuple[str, ...]) -> list[dict[str, Any]]:
    """What is known of these packages; nothing when nobody could be asked in time."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(pins))
        file.flush()
        command = [*program, "--timeout", str(PATIENCE_S), *OPTIONS, "-r", file.name]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=LIMIT_S
            )
            answer: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
        except (subprocess.TimeoutExpired, ValueError, KeyError):
            return []
    return answer


def unanswered(answer: list[dict[str, Any]]) -> list[str]:
    """The packages that nothing was told about."""
    return [package["name"] for package in answer if "skip_reason" in package]


def told(package: dict[str, Any]) -> list[str]:
    """A line for each known fault of a package."""
    lines = []
    for fault in package.get("vulns", []):
        mended = ", ".join(fault["fix_versions"]) or "no version yet"
        lines.append(
            f"{package['name']} {package['version']} has {fault['id']}, mended in {mended}"
        )
    return lines


def _say(words: str) -> int:
    sys.stdout.write(f"audit: {words}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
