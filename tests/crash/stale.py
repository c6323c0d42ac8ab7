"""An owner that sleeps past its lease: another process takes over, then the first one wakes and goes on.

One that sleeps inside a write holds SQLite's lock, which nobody can take away: the other process is refused.
"""

import os
import random
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import evidence
from .harness import Harness, Outcome, Run, orders, report, told
from .judge import Finding
from .points import AFTER_EFFECT, BEFORE_EFFECT, known_places, openings, spread
from .scenarios import SCENARIOS, SESSION

TTL = 0.6
"""Seconds that a lease lives in these runs."""

LOCK_TIMEOUT = 3.0
"""Seconds that the other process waits for SQLite's lock."""

FROZEN_SHARE = 10
"""One owner in so many is stopped inside a write: the other process waits for its lock in vain."""

ORDERS = {"asleep": "stop", "frozen": "freeze"}
"""What a blow orders of the owner."""

IN_TOOL, BEFORE_WRITE = "an owner asleep in a tool", "an owner asleep before it writes"
INSIDE_WRITE = "an owner asleep inside a write"


def measure(harness: Harness, count: int, seed: int, names: Sequence[str] = tuple(SCENARIOS)) -> list[Outcome]:
    """Put so many owners to sleep, half in tools, half before they write, and a few inside a write."""
    chance = random.Random(seed)
    inside = {
        name: {kind: points for kind, points in found.items() if kind in (BEFORE_EFFECT, AFTER_EFFECT)}
        for name, found in known_places(harness, names).items()
    }
    said = {name: report(harness.reference(name)) for name in names}
    before = {name: openings(found["written"], found["steers"]) for name, found in said.items()}
    runs = [_blow("asleep", run, IN_TOOL) for run in spread(inside, (count + 1) // 2, chance)]
    runs += [_blow("asleep", run, BEFORE_WRITE) for run in spread(before, count // 2, chance)]
    runs += [_blow("frozen", run, INSIDE_WRITE) for run in spread(before, max(1, count // FROZEN_SHARE), chance)]
    return harness.share(lambda run: play(harness, run), runs)


def _blow(verb: str, run: Run, where: str) -> Run:
    return Run(run.scenario, (f"{verb}@{run.blows[0]}",), where)


def is_stale(run: Run) -> bool:
    """Whether a run is one of these."""
    return run.blows[0].partition("@")[0] in ORDERS


def play(harness: Harness, run: Run) -> Outcome:
    """Stop the first owner at the point, let a second one finish, wake the first and judge what is there.

    One that stops between two tasks has no lease to lose: nobody else goes on then.
    """
    verb, _, point = run.blows[0].partition("@")
    folder = harness.new_folder(f"asleep-{run.scenario}")
    outcome = Outcome(run)
    with harness.zygote() as zygote:
        first = zygote.fork(orders(run.scenario, folder, at={point: ORDERS[verb]}, ttl=TTL))
        if (status := zygote.wait(first)) != "stopped":
            outcome.ends.append(str(status))
            outcome.findings.append(Finding("end", f"the first owner never came to {point}: {status}"))
            return outcome
        is_owner = verb == "frozen" or evidence.is_leased(folder, SESSION)
        try:
            time.sleep(TTL * 1.5)
            left, had_work = evidence.contents(folder), evidence.has_unfinished(folder, SESSION)
            if is_owner:
                second = orders(run.scenario, folder, ttl=TTL, lock_timeout=LOCK_TIMEOUT)
                outcome.ends.append(told(folder, zygote.run(second)))
            taken_over = evidence.contents(folder)
        finally:
            os.kill(first, signal.SIGCONT)
        outcome.ends.append(told(folder, zygote.wait(first)))
    if not is_owner:
        return _gone_on(harness, outcome, folder)
    locked = "is locked by another process" in outcome.ends[0]
    if locked:
        outcome.run = replace(run, where=INSIDE_WRITE)
    elif verb == "frozen":
        outcome.findings.append(Finding("end", f"the lock was held, and the other process ends: {outcome.ends[0]}"))
    if locked or (outcome.ends[0] == "well" and not evidence.changed(left, taken_over)):
        return _gone_on(harness, outcome, folder)
    _judge_take_over(outcome, had_work, evidence.changed(taken_over, evidence.contents(folder)))
    harness.compare(outcome, folder, interruptions=1)
    return outcome


def _gone_on(harness: Harness, outcome: Outcome, folder: Path) -> Outcome:
    """Judge an owner that had SQLite's lock, no lease or nothing left to do, so that nobody took over: it ends well."""
    if outcome.ends[-1] != "well":
        outcome.findings.append(Finding("end", f"the owner that nobody took over from ends: {outcome.ends[-1]}"))
    harness.compare(outcome, folder, interruptions=0)
    return outcome


def _judge_take_over(outcome: Outcome, had_work: bool, changed: Sequence[str]) -> None:
    """Judge two owners. Where no task was unfinished, the first one may have only its lease to release."""
    if outcome.ends[0] != "well":
        outcome.findings.append(Finding("end", f"nobody could take over: {outcome.ends[0]}"))
    if not outcome.ends[1].startswith("StaleOwner: ") and (had_work or outcome.ends[1] != "well"):
        outcome.findings.append(Finding("end", f"the first owner does not say that it lost: {outcome.ends[1]}"))
    for table in changed:
        outcome.findings.append(Finding("end", f"the first owner wrote to {table} after it had lost its lease"))
