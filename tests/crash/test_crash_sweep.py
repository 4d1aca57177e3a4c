"""SIGKILL at every boundary of every scenario: nothing is lost, nothing is done twice."""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.boundaries import AFTER, HAND_OVER, Boundary
from tests.crash.scenarios import SCENARIOS, Scenario

if TYPE_CHECKING:
    from tests.crash.lanes import Lane

pytestmark = [pytest.mark.crash, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", SCENARIOS)
def test_death_at_any_boundary_loses_nothing_and_doubles_nothing(name, lanes, report):
    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda lane: _sweep(lane, name), lanes))

    for lane, (boundaries, places, problems) in zip(lanes, outcomes, strict=True):
        assert places, lane.vendor
        assert problems == {}, lane.vendor
        report[lane.vendor, name] = len(boundaries), len(places)


def test_an_id_is_published_only_once_its_row_is_committed(lanes):
    for lane in lanes:
        labels = [boundary.label for boundary in _undisturbed(lane, "accept")]

        # On PostgreSQL the one statement that inserts and reserves commits by itself.
        ends = ("after COMMIT", "after WITH job AS (INSERT")
        committed = next(at for at, label in enumerate(labels) if label.startswith(ends))
        assert f"before {HAND_OVER}" in labels[committed:]
        assert not [label for label in labels[:committed] if HAND_OVER in label]
        assert not [label for label in labels[:committed] if "broker" in label]


def _sweep(
    lane: Lane, name: str
) -> tuple[list[Boundary], list[Boundary], dict[Boundary, list[str]]]:
    boundaries = _undisturbed(lane, name)
    places = _chosen(SCENARIOS[name], boundaries)
    killed = {place: _killed_at(lane, name, place) for place in places}
    return boundaries, places, {place: found for place, found in killed.items() if found}


def _chosen(scenario: Scenario, boundaries: list[Boundary]) -> list[Boundary]:
    labels = [boundary.label for boundary in boundaries]
    begin = labels.index(scenario.since) if scenario.since else 0
    chosen = [place for place in _places(boundaries) if place in boundaries[begin:]]
    return [place for place in chosen if scenario.thread in ("", place.thread)]


def _places(boundaries: list[Boundary]) -> list[Boundary]:
    """Where to kill: what comes after one thing and before the next is one and the same place."""
    reached = {(boundary.thread, boundary.n): boundary for boundary in boundaries}
    return [
        boundary
        for boundary in boundaries
        if boundary.is_after or not _is_after(reached.get((boundary.thread, boundary.n - 1)))
    ]


def _is_after(boundary: Boundary | None) -> bool:
    return boundary is not None and boundary.is_after


def _undisturbed(lane: Lane, name: str) -> list[Boundary]:
    scenario = SCENARIOS[name]
    lane.begin(scenario)
    told = lane.tell("act", scenario=name, kill_at=None)
    assert lane.tell("look", scenario=name) == [[scenario.ends_as]]
    return [Boundary(*boundary) for boundary in told]


def _killed_at(lane: Lane, name: str, boundary: Boundary) -> list[str]:
    lane.begin(SCENARIOS[name])
    act = lane.ask("act", scenario=name, kill_at=boundary)
    reached = [Boundary(*told) for told in act["told"]]
    if act["ended"] != -signal.SIGKILL or boundary not in reached:
        return [f"not reached: {act['ended']}, {reached[-1:]}"]
    answer = lane.ask("recover", scenario=name)
    if answer["ended"] != 0:
        return [lane.log.read_text()[-4000:]]
    (outcome,) = answer["told"]
    calls = Counter(lane.calls())
    most = SCENARIOS[name].most_calls
    told = _mistold(lane.messages(), outcome, SCENARIOS[name], reached)
    return [*outcome["problems"], *_miscalled(calls, outcome["called"], most=most), *told]


def _miscalled(calls: Counter[str], called: list[str], *, most: int) -> list[str]:
    too_often = [f"called {n} times: {job_id}" for job_id, n in calls.items() if n > most]
    return too_often + [f"never called: {job_id}" for job_id in called if job_id not in calls]


def _mistold(
    messages: list[str], outcome: dict[str, Any], scenario: Scenario, reached: list[Boundary]
) -> list[str]:
    """A message comes in the end, and once more, as the same, where it may have been received."""
    was_sent = any(boundary.label == f"{AFTER} send to receiver" for boundary in reached)
    fewest = len(scenario.receiver)
    most = fewest + (was_sent and not outcome["is_told"])
    if fewest <= len(messages) <= most and set(messages) == set(outcome["messages"]):
        return []
    return [f"{messages} came of {outcome['messages']}, {fewest} to {most} were due"]
