"""The whole measurement: `python -m tests.crash`, or `make crash`."""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import commands, report, stale
from .harness import Harness, Outcome, Part, Run, run_of
from .measurement import Measured, commit, measure


def main() -> int:
    given = _arguments()
    folder = Path(tempfile.mkdtemp(prefix="segue-crash-"))
    with Harness(folder, part=given.part) as harness:
        if given.repeat:
            return _repeat(harness, given.repeat, folder)
        began = time.monotonic()
        measured = Measured()
        for seed in given.seeds:
            measure(harness, given.kills, given.races, seed, measured)
        seconds = time.monotonic() - began
    seeds = ", ".join(map(str, given.seeds))
    _say(f"{measured.tables()}\nCommit {commit()}, {given.part}, seeds {seeds}, {seconds:.0f} s.\n")
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
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--part", type=Part.of, default=Part(), metavar="K/N", help="each N-th run, from the K-th on")
    parser.add_argument("--repeat", metavar="RUN", help="one run, as a failure names it")
    return parser.parse_args()


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
