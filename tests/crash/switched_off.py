"""The controls: with a promise of the engine switched off, the judge must see it broken."""

from collections.abc import Sequence

from .evidence import read
from .harness import Harness, Outcome, Run
from .races import Raced
from .races import measure as race
from .scenarios import SCENARIOS

LEDGER_OFF, LEASE_OFF = "without the ledger", "without the lease"


def without_ledger(harness: Harness, names: Sequence[str] = tuple(SCENARIOS)) -> list[Outcome]:
    """Kill after every effect that must not happen twice: without the ledger each one does."""
    runs = []
    for name in names:
        effects = read(harness.reference(name)).effects
        once = [e for e in effects if e["kind"] == "once" and e["moment"] == "effect" and "remote" not in e]
        labels = [e["label"] for e in once]
        runs += [Run(name, (f"tool:{label}:after",), LEDGER_OFF, ("ledger",)) for label in labels]
    return harness.share(harness.play, runs)


def without_lease(harness: Harness, races: int) -> Raced:
    """Race without a lease, until an update is lost; five times so many races is the most."""
    raced = Raced(0)
    while not raced.lost and raced.races < 5 * races:
        more = race(harness, races, without=("lease",))
        raced += more
    return raced
