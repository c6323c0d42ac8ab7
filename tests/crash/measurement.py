"""The whole measurement, or a part of it."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from . import clocks, commands, disk, flips, heartbeats, kills, load, pauses, races, report, stale, switched_off, undos
from .flips import Flipped
from .harness import ROOT, Harness, Outcome, Part
from .load import Loaded
from .races import Raced
from .switched_off import LEASE_OFF, LEDGER_OFF

T = TypeVar("T")
PAGES = 3
"""Of so many numbers of pages each scenario tries one, its neighbour the next, and with another seed another one."""
WAITING_SHARE = 5
"""One race in so many lets the second message wait."""
CONTROL_RACES = 50


@dataclass
class Measured:
    """Everything that was measured."""

    killed: list[Outcome] = field(default_factory=list)
    troubled: list[Outcome] = field(default_factory=list)
    raced: dict[str, Raced] = field(default_factory=dict)
    loaded: dict[str, Loaded] = field(default_factory=dict)
    flipped: dict[str, Flipped] = field(default_factory=dict)
    ledger_off: list[Outcome] = field(default_factory=list)
    lease_off: Raced = field(default_factory=lambda: Raced(0))

    def broken(self) -> list[str]:
        """The promises that do not hold, and the controls that stayed green."""
        found = [report.failures([*self.killed, *self.troubled])]
        found += [f"{name}: {lost}" for name, raced in self.raced.items() for lost in raced.lost]
        found += [f"{name}: {broken}" for name, loaded in self.loaded.items() for broken in loaded.broken()]
        found += [f"{name}: {lost}" for name, flipped in self.flipped.items() for lost in flipped.silent]
        green = [str(outcome.run) for outcome in self.ledger_off if not outcome.found("twice")]
        found += [f"the judge saw no duplicate in {run} {LEDGER_OFF}" for run in green]
        found += [] if self.lease_off.lost else [f"the judge saw no lost update {LEASE_OFF}"]
        return [text for text in found if text]

    def tables(self) -> str:
        """What was measured, in Markdown."""
        tables = (
            report.kills(self.killed),
            report.troubles(self.troubled),
            report.races(self.raced),
            report.loads(self.loaded),
            report.flips(self.flipped),
            report.controls(self.ledger_off, LEDGER_OFF, self.lease_off, LEASE_OFF),
        )
        return "\n" + "\n".join(tables)


def measure(harness: Harness, count: int, race_count: int, seed: int, measured: Measured) -> None:
    """Add what the harness's part of the measurement comes to with a seed."""
    measured.killed += _timed("kills", lambda: kills.measure(harness, count, seed))
    measured.troubled += _timed("checked effects", lambda: kills.checked(harness))
    measured.troubled += _timed("commands", lambda: commands.measure(harness, seed))
    measured.troubled += _timed("undos", lambda: undos.measure(harness))
    measured.troubled += _timed("power cuts", lambda: kills.power_cuts(harness, count // 3, seed))
    measured.troubled += _timed("clocks", lambda: clocks.measure(harness, count // 10, seed))
    measured.troubled += _timed("pauses", lambda: pauses.measure(harness))
    measured.troubled += _timed("full disks", lambda: disk.measure(harness, every=PAGES, first=seed))
    measured.troubled += _timed("sleeping owners", lambda: stale.measure(harness, max(2, count // 5), seed))
    measured.troubled += _timed("renewals that fail", lambda: heartbeats.measure(harness, times=2))
    _race(harness, harness.count(race_count), measured)
    _load(harness, harness.count(count // 15), measured)
    for flipped in (
        _timed("flipped keys", lambda: flips.keys(harness, harness.count(2 * count), seed)),
        *_timed("damaged logs", lambda: flips.log(harness, harness.count(2 * count // 3), seed)),
    ):
        measured.flipped[flipped.what] = measured.flipped.get(flipped.what, Flipped(flipped.what)) + flipped
    measured.ledger_off += _timed("control: no ledger", lambda: switched_off.without_ledger(harness))
    if not measured.lease_off.lost:
        measured.lease_off += _timed("control: no lease", lambda: switched_off.without_lease(harness, CONTROL_RACES))


def commit() -> str:
    """The commit that is measured, marked where files differ from it."""
    return _git("describe", "--always", "--dirty", "--exclude=*") or "unknown"


def part_of_commit(parts: int) -> Part:
    """The part that is this commit's: successive commits have all of them in turn. With WHOLE set, everything."""
    if os.environ.get("WHOLE"):
        return Part()
    number = _git("rev-list", "--count", "HEAD")
    return Part(int(number or 0) % parts + 1, parts)


def _git(*asked: str) -> str:
    """What git says; nothing where this is no checkout."""
    return subprocess.run(["git", *asked], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _race(harness: Harness, count: int, measured: Measured) -> None:
    waiting = count // WAITING_SHARE
    for name, races_, wait in (
        ("the second is refused", count - waiting, False),
        ("the second waits in the queue", waiting, True),
    ):
        raced = _timed(f"races, {name}", lambda races_=races_, wait=wait: races.measure(harness, races_, wait=wait))
        measured.raced[name] = measured.raced.get(name, Raced(0)) + raced


def _load(harness: Harness, rounds: int, measured: Measured) -> None:
    for name, elsewhere in (("readers in the same process", False), ("readers in another process", True)):
        loaded = _timed(f"load, {name}", lambda elsewhere=elsewhere: load.measure(harness, rounds, elsewhere=elsewhere))
        measured.loaded[name] = measured.loaded[name] + loaded if name in measured.loaded else loaded


def _timed(name: str, work: Callable[[], T]) -> T:
    began = time.monotonic()
    done = work()
    sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    return done
