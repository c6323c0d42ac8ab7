"""The places where a scenario can be killed, by kind, as an undisturbed run of it shows them."""

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import evidence
from .harness import Harness, Run, report

Written = Sequence[Sequence[object]]
"""(connection, verb, table) of every write, in order."""

RANDOM = "at a random time"
BEFORE_EFFECT, AFTER_EFFECT = "before the effect", "after the effect"
IN_MODEL = "while the model is asked"
AFTER_MEMORY = "after an entry of a memory file"
IN_STEER = "while a message is added to a task"
AFTER_ADDED = "after a message was accepted, while a tool runs"

OUTCOME = "the ledger's outcome"
_AROUND = {"outcome": OUTCOME, "step": "a step's writes and events", "checkpoint": "a checkpoint"}
_SIMPLE = {
    "intent": "in the ledger's intent",
    "message": "in the message's row",
    "task": "in the task's row and the runner's events",
    "lease": "in the lease",
    "set-up": "in the set-up of the tables",
}

KINDS = (
    BEFORE_EFFECT,
    AFTER_EFFECT,
    *(f"{moment} {what}" for what in _AROUND.values() for moment in ("before", "in", "after")),
    *_SIMPLE.values(),
    IN_STEER,
    AFTER_ADDED,
    IN_MODEL,
    AFTER_MEMORY,
    RANDOM,
)
"""Every kind of place, in the order of the table."""


def places(written: Written) -> dict[str, list[str]]:
    """The points at writes, by kind; a point between two transactions is after the one and before the other."""
    found: dict[str, list[str]] = defaultdict(list)
    transactions = list(_transactions(written))
    kind_of = {place: kind for kind, group in transactions for place in group}
    for kind, group in transactions:
        around = _AROUND.get(kind)
        for place in group:
            if around is None:
                found[_SIMPLE[kind]].append(f"write:{place}")
            else:
                found[f"before {around}" if place == group[0] else f"in {around}"].append(f"write:{place}")
        follows = group[-1] + 1
        if around is not None and follows in kind_of:
            found[f"after {around}"].append(f"write:{follows}")
    return dict(found)


def _transactions(written: Written) -> Iterator[tuple[str, list[int]]]:
    """The kind of each transaction, and the places of its statements from its BEGIN to its COMMIT.

    Transactions that were committed together are told apart by what they write.
    """
    open_: dict[object, list[int]] = defaultdict(list)
    for place, (connection, verb, _) in enumerate(written, start=1):
        open_[connection].append(place)
        if verb in ("COMMIT", "ROLLBACK"):
            yield from _parts(written, open_.pop(connection))
    for group in open_.values():
        yield from _parts(written, group)


def _parts(written: Written, group: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    if any(written[place - 1][1] in ("CREATE", "ALTER") for place in group):
        yield "set-up", [*group]
        return
    parts: list[tuple[str, list[int]]] = []
    begun: list[int] = []
    for place in group:
        _, verb, table = written[place - 1]
        kind = _kind(verb, table, parts[-1][0] if parts else "")
        if kind is None and not parts:
            begun.append(place)
        elif kind is None or (parts and parts[-1][0] == kind):
            parts[-1][1].append(place)
        else:
            parts.append((kind, [*begun, place]))
            begun = []
    yield from parts or [("lease", begun)]


def _kind(verb: object, table: object, before: str) -> str | None:
    """The kind of transaction that a statement is of, `before` that of the one before it; None for any."""
    if table == "calls":
        return "intent" if verb == "INSERT" else "outcome"
    if table == "tasks":
        return "message" if verb == "INSERT" else "task"
    if table == "events":
        return "task" if before == "task" else "step"
    return {"checkpoints": "checkpoint", "writes": "step", "leases": "lease", "lease_queue": "lease"}.get(str(table))


def openings(written: Written, steers: Sequence[int]) -> dict[str, list[str]]:
    """The points before the transactions of a task, by kind: whoever stops there holds the lease and no lock.

    A steer begins without the lease: its points are left out.
    """
    found: dict[str, list[str]] = defaultdict(list)
    without = set(in_steers(written, steers))
    for kind, group in _transactions(written):
        if (
            kind in ("message", "task", "intent", "outcome", "step", "checkpoint")
            and written[group[0] - 1][1] == "BEGIN"
            and f"write:{group[0]}" not in without
        ):
            found[kind].append(f"write:{group[0]}")
    return dict(found)


def in_steers(written: Written, firsts: Sequence[int]) -> Iterator[str]:
    """The points from the first write of a steer on, until the task has gone on."""
    for first in firsts:
        for place in itertools.count(first):
            if written[place - 1][2] in ("checkpoints", "writes", "calls"):
                break
            yield f"write:{place}"


def all_places(said: Mapping[str, Any], labels: Sequence[str]) -> dict[str, list[str]]:
    """As `places`, with the points inside tools and steers, before the model's replies and after entries of memory."""
    written = said["written"]
    found = {
        BEFORE_EFFECT: [f"tool:{label}:before" for label in labels],
        AFTER_EFFECT: [f"tool:{label}:after" for label in labels],
        **places(written),
        IN_STEER: [*in_steers(written, said["steers"])],
        AFTER_ADDED: [f"added:{label}" for label in said["added"]],
        IN_MODEL: [f"model:{number}" for number in range(1, said["models"] + 1)],
        AFTER_MEMORY: [f"memory:{number}" for number in range(1, said["entries"] + 1)],
    }
    return {kind: points for kind, points in found.items() if points}


def spread(found: Mapping[str, Mapping[str, list[str]]], count: int, chance: random.Random) -> list[Run]:
    """`count` runs of one blow each, of the points by scenario and kind.

    Kinds and scenarios come in turn, each kind with another scenario first and its points from all over its range.
    """
    decks = {
        (kind, scenario): _evenly(points, chance) for scenario, kinds in found.items() for kind, points in kinds.items()
    }
    runs: list[Run] = []
    kinds = list(dict.fromkeys(kind for kind, _ in decks))
    turn = Counter({kind: place for place, kind in enumerate(kinds)})
    for kind in itertools.cycle(kinds):
        if len(runs) >= count:
            return runs
        scenarios = [scenario for k, scenario in decks if k == kind]
        scenario = scenarios[turn[kind] % len(scenarios)]
        turn[kind] += 1
        runs.append(Run(scenario, (next(decks[kind, scenario]),), kind))
    return runs


def known_places(harness: Harness, names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """The places of these scenarios."""
    found = {}
    wanted = list(names)
    for name, folder in zip(wanted, harness.each(harness.reference, wanted), strict=True):
        said = report(folder)
        effects = evidence.read(folder).effects
        labels = [line["label"] for line in effects if line["moment"] == "start" and "remote" not in line]
        found[name] = all_places(said, labels)
    return found


def _evenly(points: Sequence[str], chance: random.Random) -> Iterator[str]:
    """The points in an order that covers their whole range early, again and again."""
    step = 0.618034  # the golden ratio: its multiples never bunch
    begin = chance.random()
    for number in itertools.count():
        yield points[int((begin + number * step) % 1 * len(points))]
