"""The whole measurement: `python -m tests.crash`, or `make crash`."""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from . import commands, disk, flips, heartbeats, kills, load, pauses, races, report, stale, switched_off, undos
from .flips import Flipped
from .harness import Harness, Outcome, Run, run_of
from .load import Loaded
from .races import Raced
from .switched_off import LEASE_OFF, LEDGER_OFF

T = TypeVar("T")
PAGES = 3
"""Of so many numbers of pages each scenario tries one, and its neighbour the next."""
WAITING_SHARE = 5
"""One race in so many lets the second message wait in line."""


@dataclass
class Measured:
    """Everything that was measured."""

    killed: list[Outcome] = field(default_factory=list)
    troubled: list[Outcome] = field(default_factory=list)
    raced: list[tuple[str, Raced]] = field(default_factory=list)
    loaded: list[tuple[str, Loaded]] = field(default_factory=list)
    flipped: list[Flipped] = field(default_factory=list)
    ledger_off: list[Outcome] = field(default_factory=list)
    lease_off: Raced = field(default_factory=lambda: Raced(0))

    def broken(self) -> list[str]:
        """The promises that do not hold, and the controls that stayed green."""
        found = [report.failures([*self.killed, *self.troubled])]
        found += [f"{name}: {lost}" for name, raced in self.raced for lost in raced.lost]
        found += [f"{name}: {broken}" for name, loaded in self.loaded for broken in loaded.broken()]
        found += [f"{flipped.what}: {lost}" for flipped in self.flipped for lost in flipped.silent]
        green = [str(outcome.run) for outcome in self.ledger_off if not outcome.found("twice")]
        found += [f"the judge saw no duplicate in {run} {LEDGER_OFF}" for run in green]
        found += [] if self.lease_off.lost else [f"the judge saw no lost update {LEASE_OFF}"]
        return [text for text in found if text]


def main() -> int:
    given = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="segue-crash-"))
    with Harness(folder) as harness:
        if given.repeat:
            return _repeat(harness, given.repeat, folder)
        began = time.monotonic()
        measured = _measure(harness, given.kills, given.races, given.seed)
        seconds = time.monotonic() - began
    _say(_tables(measured) + f"\nSeed {given.seed}, {seconds:.0f} s.\n")
    broken = measured.broken()
    if broken:
        _say("\n".join(["", "BROKEN:", *broken, "", f"What they left is in {folder}.", ""]))
        return 1
    shutil.rmtree(folder)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="how often to kill")
    parser.add_argument("--races", type=int, default=1000, help="how often to race")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", metavar="RUN", help="one run, as a failure names it")
    return parser.parse_args()


def _measure(harness: Harness, count: int, race_count: int, seed: int) -> Measured:
    measured = Measured()
    measured.killed = _timed("kills", lambda: kills.measure(harness, count, seed))
    measured.troubled += _timed("checked effects", lambda: kills.checked(harness))
    measured.troubled += _timed("commands", lambda: commands.measure(harness, seed))
    measured.troubled += _timed("undos", lambda: undos.measure(harness))
    measured.troubled += _timed("power cuts", lambda: kills.power_cuts(harness, count // 3, seed))
    measured.troubled += _timed("pauses", lambda: pauses.measure(harness))
    measured.troubled += _timed("full disks", lambda: disk.measure(harness, every=PAGES))
    measured.troubled += _timed("sleeping owners", lambda: stale.measure(harness, max(2, count // 5), seed))
    measured.troubled += _timed("renewals that fail", lambda: heartbeats.measure(harness, times=2))
    waiting = race_count // WAITING_SHARE
    refused = _timed("races", lambda: races.measure(harness, race_count - waiting))
    waited = _timed("races in line", lambda: races.measure(harness, waiting, wait=True))
    measured.raced = [("the second is refused", refused), ("the second waits in the queue", waited)]
    inside = _timed("load", lambda: load.measure(harness, count // 15))
    outside = _timed("load beside another process", lambda: load.measure(harness, count // 15, elsewhere=True))
    measured.loaded = [("readers in the same process", inside), ("readers in another process", outside)]
    measured.flipped.append(_timed("flipped keys", lambda: flips.keys(harness, 2 * count, seed)))
    measured.flipped += _timed("damaged logs", lambda: flips.log(harness, 2 * count // 3, seed))
    measured.ledger_off = _timed("control: no ledger", lambda: switched_off.without_ledger(harness))
    measured.lease_off = _timed("control: no lease", lambda: switched_off.without_lease(harness, 50))
    return measured


def _timed(name: str, work: Callable[[], T]) -> T:
    began = time.monotonic()
    done = work()
    sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    return done


def _tables(measured: Measured) -> str:
    tables: Sequence[str] = (
        report.kills(measured.killed),
        report.troubles(measured.troubled),
        report.races(measured.raced),
        report.loads(measured.loaded),
        report.flips(measured.flipped),
        report.controls(measured.ledger_off, LEDGER_OFF, measured.lease_off, LEASE_OFF),
    )
    return "\n" + "\n".join(tables)


def _repeat(harness: Harness, text: str, folder: Path) -> int:
    run = run_of(text)
    outcome = _play(harness, run)
    _say(f"{outcome.kills} kills; the children ended: {', '.join(outcome.ends)}\n")
    if not outcome.findings:
        _say("Nothing is wrong.\n")
        return 0
    _say(f"{report.failures([outcome])}\nWhat it left is in {folder}.\n")
    return 1


def _play(harness: Harness, run: Run) -> Outcome:
    if run.scenario in commands.COMMANDS:
        return commands.play(harness, run)
    return stale.play(harness, run) if stale.is_stale(run) else harness.play(run)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
