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

killed = pytest.StashKey[dict[tuple[str, str], int]]()


@pytest.fixture(scope="session")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Generator[list[Lane]]:
    """A lane on each database."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(lane(vendor, tmp_path_factory.mktemp(vendor))) for vendor in VENDORS
        ]


@pytest.fixture
def report(pytestconfig: pytest.Config) -> dict[tuple[str, str], int]:
    """Where a test notes at how many boundaries of a scenario it killed; printed at the end."""
    return pytestconfig.stash.setdefault(killed, {})


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say how many boundaries were found, killed at and survived."""
    counts = config.stash.get(killed, {})
    if not counts:
        return
    terminalreporter.section("crash sweep: boundaries found, each killed at and survived")
    vendors = sorted({vendor for vendor, _ in counts})
    for name in dict.fromkeys(name for _, name in counts):
        each = (
            f"{vendor} {counts[vendor, name]:3}" for vendor in vendors if (vendor, name) in counts
        )
        terminalreporter.write_line(f"{name:18} {'  '.join(each)}")
    for vendor in vendors:
        total = sum(count for (of, _), count in counts.items() if of == vendor)
        terminalreporter.write_line(f"{'together':18} {vendor} {total:3}")
