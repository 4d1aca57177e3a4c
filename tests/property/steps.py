"""What may come next in the life of the product, how often, and what a run must have met."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from reports.provider import Usage
from tests.property.ledger import CAP

USAGES = [None, Usage(0, 0), Usage(3, 4), Usage(200, 50)]

# Every way that a step can end.
ENDS = {
    *("accepted", "replayed", "idempotency_key_reused", "exceeds_daily_budget"),
    *("budget_exhausted", "too_many_active_jobs", "replayed once erased"),
    *("claimed", "claim refused", "claim too late", "run", "run refused", "put off"),
    *("succeeded", "failed", "broken off", "over the reservation", "ended on another day"),
    *("stale claim refused", "claim of an earlier try refused"),
    *("cancelled queued", "cancelled running", "cancelled again", "cancel refused"),
    *("erased", "erased again", "erase refused", "cap below what is spent"),
    *("swept lost", "swept expired", "swept erased"),
    *("today begun again", "nothing to begin again"),
    *("allowed by a group", "back to the default"),
}

# A life that meets every one of them.
LIFE: list[tuple[Any, ...]] = [
    ("accept", 0, "a", 300),
    ("accept", 0, "a", 90),
    ("accept", 0, "a", 90),
    ("accept", 0, "a", 1),
    ("accept", 0, "b", 90),
    ("accept", 0, "c", 1),
    ("change_cap", 0, 4 * CAP),
    ("accept", 0, "c", 1),
    ("change_cap", 0, 25),
    ("midnight", False),
    ("fail", 1),
    ("fail", 0),
    ("claim", 1),
    ("postpone", 1, 0),
    ("claim", 1),
    ("succeed", 0, Usage(0, 0)),
    ("succeed", 1, Usage(200, 50)),
    ("claim", 0),
    ("claim", 0),
    ("break_off", 1),
    ("accept", 1, "d", 1),
    ("cancel", 1),
    ("cancel", 0),
    ("accept", 1, "e", 1),
    ("claim", 1),
    ("cancel", 1),
    ("cancel", 2),
    ("erase", 0),
    ("erase", 0),
    ("accept", 1, "e", 1),
    ("accept", 1, "f", 1),
    ("erase", 0),
    ("deliver", 1),
    ("deliver", 1),
    ("accept", 1, "g", 1),
    ("time_runs_out", 1),
    ("claim", 1),
    ("sweep",),
    ("accept", 1, "h", 1),
    ("claim", 1),
    ("time_runs_out", 1),
    ("sweep",),
    ("time_runs_out", 0),
    ("sweep",),
    ("reset_today", 0),
    ("change_allowance", 2 * CAP),
    ("accept", 1, "i", 1),
    ("claim", 1),
    ("succeed", 1, Usage(3, 4)),
    ("reset_today", 1),
    ("reset_today", 1),
    ("follow_default", 0),
    ("midnight", True),
]

anyone = st.integers(0, 1)
recent = st.integers(0, 3)
# What may come next, how often, and with what. One rule takes them all: of many rules Hypothesis
# leaves out some in each run, and without accepts there is nothing to settle.
STEPS: dict[str, tuple[int, tuple[st.SearchStrategy[Any], ...]]] = {
    "accept": (
        9,
        (anyone, st.sampled_from("abcdefgh"), st.sampled_from([1, 2, 90, 91, 300])),
    ),
    "claim": (8, (recent,)),
    "succeed": (4, (recent, st.sampled_from(USAGES))),
    "fail": (2, (recent,)),
    "break_off": (3, (recent,)),
    "postpone": (4, (recent, st.sampled_from([0, 0, 10]))),
    "deliver": (2, (recent,)),
    "cancel": (3, (recent,)),
    "erase": (3, (recent,)),
    "sweep": (2, ()),
    "time_runs_out": (4, (recent,)),
    "midnight": (2, (st.sampled_from([False, False, False, True]),)),
    "change_cap": (1, (anyone, st.sampled_from([0, 25, CAP, CAP, 4 * CAP]))),
    "follow_default": (1, (anyone,)),
    "change_allowance": (1, (st.sampled_from([None, 0, 25, CAP, 2 * CAP]),)),
    "reset_today": (1, (anyone,)),
    "the_command_finds_nothing": (1, ()),
}
names = st.sampled_from([name for name, (weight, _) in STEPS.items() for _ in range(weight)])
steps = names.flatmap(lambda name: st.tuples(st.just(name), *STEPS[name][1]))
