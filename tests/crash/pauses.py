"""Runs that are asked to pause at every event, and at writes in between, and are resumed, here or elsewhere."""

from collections.abc import Sequence

from . import evidence
from .harness import Harness, Outcome, Run, report
from .scenarios import SCENARIOS

STRIDE = 40
"""Of the writes, one in so many is tried."""


def measure(harness: Harness, names: Sequence[str] = tuple(SCENARIOS), every: int = 1) -> list[Outcome]:
    """Pause at every event, or at every so many."""
    runs = [run for name in names for run in (*_at_events(harness, name, every), *_at_writes(harness, name, every))]
    return harness.share(harness.play, runs)


def _at_events(harness: Harness, name: str, every: int) -> list[Run]:
    """The process that pauses resumes itself after odd events; after even ones another does."""
    log = evidence.read(harness.reference(name)).events
    count = sum(len(events) for events in log.values())
    return [
        Run(name, (f"{'pause' if n % 2 else 'leave'}:{n}",), "a pause after an event")
        for n in range(1, count + 1, every)
    ]


def _at_writes(harness: Harness, name: str, every: int) -> list[Run]:
    count = len(report(harness.reference(name))["written"])
    numbers = range(1, count + 1, STRIDE * every)
    return [
        Run(name, (f"{'pause' if place % 2 else 'leave'}@write:{n}",), "a pause at a write")
        for place, n in enumerate(numbers)
    ]
