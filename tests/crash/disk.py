"""Runs whose disk is full after so many pages, for every such number; then there is room again."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from sqlite3 import connect

from .harness import Harness, Outcome, Run
from .judge import Finding
from .scenarios import SCENARIOS


def measure(harness: Harness, names: Sequence[str] = tuple(SCENARIOS), every: int = 1) -> list[Outcome]:
    """Let the database have 0, 1, 2, … pages, until it has enough; of `every` so many, each scenario tries another."""
    runs = [
        Run(name, (f"pages:{pages}",), "a full disk")
        for place, name in enumerate(names)
        for pages in range(place % every, _pages(harness.reference(name)) + 1, every)
    ]
    return [_clear(outcome) for outcome in harness.each(harness.play, runs)]


def _pages(folder: Path) -> int:
    """How many pages the undisturbed run took."""
    with closing(connect(folder / "segue.db")) as db:
        return int(db.execute("PRAGMA page_count").fetchone()[0])


def _clear(outcome: Outcome) -> Outcome:
    """Whoever met the full disk must say so in its own words."""
    end = outcome.ends[0]
    if end != "well" and not (end.startswith("DatabaseUnavailable: ") and "has no room left" in end):
        outcome.findings.append(Finding("end", f"it does not say that the disk is full: {end}"))
    return outcome
