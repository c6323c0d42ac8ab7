"""What was measured, as tables in Markdown."""

from collections.abc import Iterable, Mapping, Sequence

from .flips import LAST, REFUSED, SAME, Flipped
from .harness import Outcome
from .judge import KINDS
from .load import Loaded
from .points import KINDS as PLACES
from .races import Raced

_COLUMNS = ("lost steps", "duplicated effects", "unflagged unknowns", "wrong final states", "gaps or repeats in events")
"""In the order of the judge's kinds."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """One table; every column but the first holds numbers."""
    lines = [header, ["---", *("--:" for _ in header[1:])], *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines) + "\n"


def kills(outcomes: Sequence[Outcome]) -> str:
    """A row for each kind of place, and their sum."""
    groups = [(place, [o for o in outcomes if o.run.where == place]) for place in PLACES]
    rows = [[place, *_counts(group, sum(o.kills for o in group))] for place, group in groups if group]
    total = ["**all**", *_counts(outcomes, sum(o.kills for o in outcomes))]
    return table(("killed with −9", "kills", "flagged unknowns", *_COLUMNS), [*rows, total])


def troubles(outcomes: Sequence[Outcome]) -> str:
    """A row for each kind of trouble that is no kill."""
    places = list(dict.fromkeys(outcome.run.where for outcome in outcomes))
    groups = [(place, [o for o in outcomes if o.run.where == place]) for place in places]
    rows = [[place, *_counts(group, len(group))] for place, group in groups]
    return table(("trouble", "runs", "flagged unknowns", *_COLUMNS), rows)


def _counts(outcomes: Sequence[Outcome], times: int) -> list[int]:
    return [times, sum(o.unknowns for o in outcomes), *(sum(o.found(kind) for o in outcomes) for kind in KINDS)]


def races(raced: Mapping[str, Raced]) -> str:
    """A row for each kind of race."""
    rows = [
        [name, result.races, result.ends["done"], sum(result.ends.values()) - result.ends["done"], len(result.lost)]
        for name, result in raced.items()
    ]
    return table(("two processes on one thread", "races", "messages done", "refused", "lost updates"), rows)


def loads(loaded: Mapping[str, Loaded]) -> str:
    """A row for each kind of readers."""
    rows = [
        [name, load.ends.total(), load.reads, load.ends.total() - load.ends["done"], len(load.failed), len(load.lost)]
        for name, load in loaded.items()
    ]
    return table(("tasks beside readers", "tasks", "reads", "failed tasks", "failed reads", "lost or duplicated"), rows)


def flips(flipped: Mapping[str, Flipped]) -> str:
    """A row for each place where bits were flipped."""
    ends = (SAME, REFUSED, LAST)
    rows = [
        [each.what, each.ends.total() + len(each.silent), *(each.ends[end] for end in ends), len(each.silent)]
        for each in flipped.values()
    ]
    return table(("a bit that was flipped", "flips", *ends, "silently lost"), rows)


def controls(ledger: Sequence[Outcome], ledger_name: str, lease: Raced, lease_name: str) -> str:
    """What the judge finds with a promise switched off."""
    twice = sum(outcome.found("twice") for outcome in ledger)
    rows = [
        [ledger_name, f"{len(ledger)} kills after an effect", f"{twice} duplicated effects"],
        [lease_name, f"{lease.races} races", f"{len(lease.lost)} lost updates"],
    ]
    return table(("control", "runs", "found"), rows)


def failures(outcomes: Iterable[Outcome]) -> str:
    """How to repeat each run with a finding, and what was found."""
    lines = []
    for outcome in outcomes:
        if outcome.findings:
            lines.append(f'python -m tests.crash --repeat "{outcome.run}"   # {outcome.run.where}')
            lines += [f"    {str(finding)[:600]}" for finding in outcome.findings]
    return "\n".join(lines)
