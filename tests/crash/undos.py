"""Kills while a call is undone: it is undone at most once, and where nobody knows whether it was, that is said."""

import json
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from .commands import BASE, HERE, boundaries, copied, errand
from .harness import Harness, Outcome, Run, report, told
from .judge import Finding

NAME = "undo"
WHERE = "a kill in an undo"
_TOOL = "unsend"
_CALLS = "SELECT state, outcome FROM calls WHERE scope LIKE 'undo:%'"


def measure(harness: Harness, every: int = 1) -> list[Outcome]:
    """Kill the undoing of the session's one letter at every write, and around its effect; then undo again."""
    before = harness.new_folder("before-undo")
    base = harness.reference(BASE.name)
    for file in (HERE, "effects.jsonl"):
        shutil.copy(base / file, before / file)
    with harness.zygote() as zygote:
        undisturbed = copied(harness, before, "undisturbed-undo")
        end = told(undisturbed, errand(zygote, undisturbed, NAME))
    written = [*boundaries(report(undisturbed)["written"])][::-every][::-1]
    points = (*written, "tool:unb:before", "tool:unb:after", "done")
    learned = Outcome(Run(NAME, (), WHERE), ends=[end], findings=[*_judged(undisturbed, certain=True)])
    return [learned, *harness.share(lambda point: _play(harness, before, point), points)]


def _play(harness: Harness, before: Path, point: str) -> Outcome:
    folder, outcome = copied(harness, before, NAME), Outcome(Run(NAME, (point,), WHERE))
    with harness.zygote() as zygote:
        outcome.kills += errand(zygote, folder, NAME, point) == -signal.SIGKILL
        outcome.ends.append(told(folder, errand(zygote, folder, NAME)))
    outcome.findings += [Finding("end", f"it fails: {end}") for end in outcome.ends if end != "well"]
    outcome.findings += _judged(folder)
    return outcome


def _judged(folder: Path, *, certain: bool = False) -> Iterator[Finding]:
    lines = [json.loads(line) for line in (folder / "effects.jsonl").read_text(encoding="utf-8").splitlines()]
    started, happened = (
        sum((line["tool"], line["moment"]) == (_TOOL, moment) for line in lines) for moment in ("start", "effect")
    )
    if started > 1:
        yield Finding("twice", f"the letter was taken back {started} times")
    with closing(sqlite3.connect(folder / HERE)) as database:
        calls = [(state, json.loads(outcome or "{}")) for state, outcome in database.execute(_CALLS)]
    if [state for state, _ in calls] != ["done"]:
        yield Finding("unflagged", f"the ledger's undos are {calls}")
        return
    ((_, outcome),) = calls
    if ("success" in outcome) != bool(happened) and not outcome.get("unknown_outcome"):
        yield Finding("unflagged", f"the ledger says {outcome}, and it happened {happened} times")
    if certain and "success" not in outcome:
        yield Finding("lost", f"the undisturbed undo came to {outcome}")
