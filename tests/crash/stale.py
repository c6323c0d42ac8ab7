"""An owner that sleeps past its lease: another process takes over, then the first one wakes and goes on."""

import os
import random
import signal
import time
from collections.abc import Sequence

from . import evidence
from .harness import Harness, Outcome, Run, orders, report, told
from .judge import Finding
from .points import AFTER_EFFECT, BEFORE_EFFECT, known_places, openings, spread
from .scenarios import SCENARIOS

TTL = 0.6
"""Seconds that a lease lives in these runs."""

TRIES = 3

ASLEEP = "asleep@"
IN_TOOL, BEFORE_WRITE = "an owner asleep in a tool", "an owner asleep before it writes"


def measure(harness: Harness, count: int, seed: int, names: Sequence[str] = tuple(SCENARIOS)) -> list[Outcome]:
    """Put so many owners to sleep: half in tools, half before they write."""
    chance = random.Random(seed)
    inside = {
        name: {kind: points for kind, points in found.items() if kind in (BEFORE_EFFECT, AFTER_EFFECT)}
        for name, found in known_places(harness, names).items()
    }
    said = {name: report(harness.reference(name)) for name in names}
    before = {name: openings(found["written"], found["steers"]) for name, found in said.items()}
    runs = [_asleep(run, IN_TOOL) for run in spread(inside, (count + 1) // 2, chance)]
    runs += [_asleep(run, BEFORE_WRITE) for run in spread(before, count // 2, chance)]
    return harness.each(lambda run: play(harness, run), runs)


def _asleep(run: Run, where: str) -> Run:
    return Run(run.scenario, (ASLEEP + run.blows[0],), where)


def play(harness: Harness, run: Run) -> Outcome:
    """Stop the first owner at the point, let a second one finish, wake the first and judge what is there.

    Where another thread of the owner was just writing, it sleeps with SQLite's lock in its hands, which nobody can take
    away: then it is tried again.
    """
    outcome = _race(harness, run)
    for _ in range(TRIES - 1):
        if "is locked by another process" not in outcome.ends[0]:
            break
        outcome = _race(harness, run)
    return outcome


def _race(harness: Harness, run: Run) -> Outcome:
    point = run.blows[0].removeprefix(ASLEEP)
    folder = harness.new_folder(f"asleep-{run.scenario}")
    outcome = Outcome(run)
    with harness.zygote() as zygote:
        first = zygote.fork(orders(run.scenario, folder, at={point: "stop"}, ttl=TTL))
        if (status := zygote.wait(first)) != "stopped":
            outcome.ends.append(str(status))
            outcome.findings.append(Finding("end", f"the first owner never came to {point}: {status}"))
            return outcome
        try:
            time.sleep(TTL * 1.5)
            outcome.ends.append(told(folder, zygote.run(orders(run.scenario, folder, ttl=TTL))))
            taken_over = evidence.contents(folder)
        finally:
            os.kill(first, signal.SIGCONT)
        outcome.ends.append(told(folder, zygote.wait(first)))
    if outcome.ends[0] != "well":
        outcome.findings.append(Finding("end", f"nobody could take over: {outcome.ends[0]}"))
    if not outcome.ends[1].startswith("StaleOwner: "):
        outcome.findings.append(Finding("end", f"the first owner does not say that it lost: {outcome.ends[1]}"))
    for table in evidence.changed(taken_over, evidence.contents(folder)):
        outcome.findings.append(Finding("end", f"the first owner wrote to {table} after it had lost its lease"))
    harness.compare(outcome, folder, interruptions=1)
    return outcome
