"""Clocks that jump while a task runs, and processes of one session whose clocks do not agree."""

import random

from .harness import AHEAD, Harness, Outcome, Run
from .points import known_places, spread
from .scenarios import SCENARIOS

WHERE = {
    f"jump+{AHEAD}": "a clock that is set forward",
    f"jump-{AHEAD}": "a clock that is set back",
    f"killed+{AHEAD}": "a kill, and the next process's clock is behind",
    f"killed-{AHEAD}": "a kill, and the next process's clock is ahead",
}
"""The kind of trouble, by what befalls a run."""


def measure(harness: Harness, count: int, seed: int) -> list[Outcome]:
    """So many runs of each kind, at every kind of place in turn."""
    found, runs = known_places(harness, SCENARIOS), []
    for place, (verb, where) in enumerate(WHERE.items()):
        spots = spread(found, count, random.Random(seed * len(WHERE) + place))
        runs += [Run(run.scenario, (f"{verb}@{run.blows[0]}",), where) for run in spots]
    return harness.share(harness.play, runs)
