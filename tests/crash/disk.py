"""Runs whose disk is full after so many pages, for every such number; then there is room again."""

from collections.abc import Sequence

from . import evidence
from .harness import Harness, Outcome, Run
from .judge import Finding
from .scenarios import SCENARIOS

# In "background" a tool waits until the called agent has ended; one that met the full disk ends in the next process.
MEASURED = tuple(name for name in SCENARIOS if name != "background")


def measure(harness: Harness, names: Sequence[str] = MEASURED, every: int = 1, first: int = 0) -> list[Outcome]:
    """Let the database have 0, 1, 2, … pages, until it has enough; of `every` so many, each scenario tries another."""
    runs = [
        Run(name, (f"pages:{pages}",), "a full disk")
        for place, name in enumerate(names)
        for pages in range((place + first) % every, evidence.pages(harness.reference(name) / "segue.db") + 1, every)
    ]
    runs += [Run("attached", (f"files:{count}",), "a full folder of files") for count in range(3)]
    return [_clear(outcome) for outcome in harness.share(harness.play, runs)]


def _clear(outcome: Outcome) -> Outcome:
    """Whoever met the full disk must say so in its own words."""
    end = outcome.ends[0]
    if end != "well" and not is_named(end):
        outcome.findings.append(Finding("end", f"it does not say that the disk is full: {end}"))
    return outcome


def is_named(end: str) -> bool:
    """Whether a child ended by saying that the disk is full."""
    named = "is full: free" in end or "(No space left on device)" in end
    return named and end.startswith(("DatabaseUnavailable: ", "DatabaseLost: "))  # the second: of a called agent
