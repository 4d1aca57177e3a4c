"""The crash sweep's lanes, opened once each, and its report."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.crash.lanes import Lane, lane

if TYPE_CHECKING:
    from collections.abc import Generator

VENDORS = ["sqlite"] if os.environ.get("TEST_DATABASE") == "sqlite" else ["postgresql", "sqlite"]

Report = dict[tuple[str, str], tuple[int, int]]
key = pytest.StashKey[Report]()


@pytest.fixture(scope="session")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[Lane]]:
    """A lane on each database."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(lane(vendor, tmp_path_factory.mktemp(vendor))) for vendor in VENDORS
        ]


@pytest.fixture
def report(pytestconfig: pytest.Config) -> Report:
    """By database and scenario: boundaries found, and places killed at and survived."""
    return pytestconfig.stash.setdefault(key, {})


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the report."""
    report = config.stash.get(key, {})
    if not report:
        return
    terminalreporter.section("crash sweep: boundaries found, places killed at and survived")
    for vendor in sorted({vendor for vendor, _ in report}):
        rows = {name: counts for (of, name), counts in sorted(report.items()) if of == vendor}
        for name, (found, survived) in rows.items():
            terminalreporter.write_line(f"{vendor:10}  {name:16} {found:4} {survived:4}")
        found, survived = (sum(counts) for counts in zip(*rows.values(), strict=True))
        terminalreporter.write_line(f"{vendor:10}  {'together':16} {found:4} {survived:4}")
