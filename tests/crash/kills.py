"""Runs that are killed with −9, at every kind of place and at random times, and go on in another process."""

import random
from dataclasses import replace

from .harness import Harness, Outcome, Run, report
from .points import AFTER_EFFECT, BEFORE_EFFECT, OUTCOME, RANDOM, known_places, spread
from .scenarios import SCENARIOS

CUT = "power@"
TWICE = 5
"""One run in so many is killed again while it goes on."""


def measure(harness: Harness, kills: int, seed: int) -> list[Outcome]:
    """Kill at least so often, half of it at random times."""
    chance = random.Random(seed)
    done = at_places(harness, (kills + 1) // 2, chance)
    while (missing := harness.count(kills) - sum(outcome.kills for outcome in done)) > 0:
        done += at_random(harness, missing, chance)
    return done


def at_places(harness: Harness, count: int, chance: random.Random) -> list[Outcome]:
    """So many runs that are killed at a known place, every kind of place in turn."""
    runs = spread(known_places(harness, SCENARIOS), count, chance)
    return harness.share(harness.play, [_again(harness, run, chance) for run in runs])


def at_random(harness: Harness, count: int, chance: random.Random) -> list[Outcome]:
    """So many runs that are killed at some time; one that ends before it is spared."""
    names = [chance.choice([*SCENARIOS]) for _ in range(count)]
    runs = [Run(name, (_some_time(harness, name, chance),), RANDOM) for name in names]
    return harness.each(harness.play, [_again(harness, run, chance) for run in runs])


def power_cuts(harness: Harness, count: int, seed: int) -> list[Outcome]:
    """So many runs whose kill also takes what was not synced to the disk."""
    runs = spread(known_places(harness, SCENARIOS), count, random.Random(seed))
    cuts = [replace(run, blows=(CUT + run.blows[0],), where="a power cut") for run in runs]
    return harness.share(harness.play, cuts)


def checked(harness: Harness) -> list[Outcome]:
    """A kill before and after every effect whose tool has a check, and at every write of the outcome that follows."""
    found = known_places(harness, ["checked"])["checked"]
    kinds = (BEFORE_EFFECT, AFTER_EFFECT, f"before {OUTCOME}", f"in {OUTCOME}")
    points = [point for kind in kinds for point in found[kind]]
    return harness.share(harness.play, [Run("checked", (point,), "a kill around a checked effect") for point in points])


def _some_time(harness: Harness, name: str, chance: random.Random) -> str:
    return f"time:{chance.uniform(0, report(harness.reference(name))['seconds']):.4f}"


def _again(harness: Harness, run: Run, chance: random.Random) -> Run:
    """Now and then a second blow, to the process that goes on."""
    if chance.randrange(TWICE):
        return run
    name = run.scenario
    if run.where == RANDOM:
        second = _some_time(harness, name, chance)
    else:
        second = f"write:{chance.randrange(1, len(report(harness.reference(name))['written']) // 2)}"
    return replace(run, blows=(*run.blows, second))
