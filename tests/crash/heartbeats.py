"""Owners whose leases cannot be renewed for a while, and that go on before or after they ran out."""

from collections.abc import Sequence

from .harness import Harness, Outcome, Run
from .scenarios import SCENARIOS

FAILURES = {"renewals fail, then the lease is renewed": 3, "renewals fail until the lease ran out": 40}
"""How many renewals fail, by what comes of it."""


def measure(harness: Harness, names: Sequence[str] = tuple(SCENARIOS), times: int = 1) -> list[Outcome]:
    """Let renewals of each scenario fail so many times in both ways."""
    runs = [Run(name, (f"unrenewed:{count}",), where) for where, count in FAILURES.items() for name in names]
    return harness.share(harness.play, runs * times)
