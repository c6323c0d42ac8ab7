"""What a damaged row of the ledger is mended to: a call that had ended is never made again."""

import json
import re
from collections.abc import Mapping, Sequence

from segue.core.ids import Ids
from segue.core.records import Json

from ..integrity import ReadRow
from ..ledger import canonical

_LOST = "unknown_outcome: {name} ended, but what it came to was damaged: check what it did before calling it once more."
_CUT = re.compile(r"… \[\d+ more characters\]\Z")
"""How a result ends of which an event has the beginning only."""


def mended_call(
    row: ReadRow, thread_id: str, tasks: Sequence[Json], log: Mapping[str, Sequence[Json]]
) -> tuple[Json, str]:
    """The damaged columns' new values, and a sentence about them."""
    task_id = row.task_id or _task_of(row, tasks, log)
    events = log.get(task_id, ())
    told = _call_by_events(row, events)
    ended = _had_ended(row)
    began = next((task["created_at"] for task in tasks if task["task_id"] == task_id), 0.0)
    started = row.values.get("started_at") or row.values.get("finished_at") or began
    name = row.values.get("name") or told.get("name", "unknown")
    lost = {"error": _LOST.format(name=name), "unknown_outcome": True}
    whole = {
        "thread_id": thread_id,
        "task_id": task_id,
        "scope": f"damaged#{row.stored['position']}",
        "idx": 0,
        "name": name,
        "arguments": canonical(told.get("arguments", {})),
        "state": "done" if ended else "running",
        "outcome": json.dumps(told.get("result", lost)) if ended else None,
        "fence": 0,
        "started_at": started,
        "finished_at": started if ended else None,
        "orphaned": int(any(event["type"] == "recovered" for event in events)),
    }
    new = {column: whole[column] for column in _to_mend(row)}
    if new.keys() & {"scope", "idx"}:  # like an orphan it is found again by its name and arguments
        new |= {"scope": whole["scope"], "idx": 0, "orphaned": 1}
    return new, _sentence(row, task_id, name, told)


def _to_mend(row: ReadRow) -> Sequence[str]:
    """The damaged columns, and those that a call which had ended cannot be without."""
    needed = ("outcome", "finished_at") if _had_ended(row) else ()
    return [*row.faults, *(column for column in needed if column not in row.faults and row.stored[column] is None)]


def _had_ended(row: ReadRow) -> bool:
    """A row of which this cannot be told was settled if anything was stored when it was."""
    state = row.values.get("state")
    settled = row.stored["outcome"] is not None or row.stored["finished_at"] is not None
    return state == "done" or (state is None and settled)


def _task_of(row: ReadRow, tasks: Sequence[Json], log: Mapping[str, Sequence[Json]]) -> str:
    """The task whose events name the call's recursion, else the one that had begun last, else any."""
    for task_id, events in log.items():
        if _call_by_events(row, events):
            return task_id
    before = [task["task_id"] for task in tasks if task["created_at"] <= row.values.get("started_at", float("inf"))]
    return str((before or [task["task_id"] for task in tasks] or [Ids().task()])[-1])


def _call_by_events(row: ReadRow, events: Sequence[Json]) -> Json:
    """The name, arguments and result that a task's events give for a call; nothing where they differ."""
    scope, index = row.values.get("scope", ""), row.values.get("idx")
    step, attempts, _ = scope.rpartition("#")
    told: Json = {}
    for event in events:
        data = event["data"]
        here = event["trace_id"] == scope or (attempts and not event["trace_id"] and event["step_id"] == step)
        if here and event["type"] in ("tool_call", "tool_result") and data["index"] == index:
            if attempts and told and (told["name"], told["arguments"]) != (data["name"], data["arguments"]):
                return {}
            told |= {column: data[column] for column in ("name", "arguments", "result") if column in data}
        elif here and event["type"] == "approval_given":  # a person may have changed the arguments
            for edit in data["verdicts"]:
                if isinstance(edit, dict) and edit.get("index") == index and isinstance(edit.get("arguments"), dict):
                    told["arguments"] = edit["arguments"]
    return told


def _sentence(row: ReadRow, task_id: str, name: str, told: Json) -> str:
    mended = _to_mend(row)
    said = [f"mended: {', '.join(mended)}"]
    if row.faults.keys() & {"outcome", "state"} and _had_ended(row):
        said.append("it counts as made" + (_left_of(told.get("result")) if "outcome" in mended else ""))
    if row.faults.keys() & {"name", "arguments"} and not told:
        said.append("what was called is lost, so that its task may stop there: cancel it then")
    return f"Call {name} of task «{task_id}»: {'; '.join(said)}."


def _left_of(result: Json | None) -> str:
    """What is missing of an outcome that was taken from the call's event."""
    if result is None:
        return ", what it came to is lost"
    cut = any(isinstance(value, str) and _CUT.search(value) for value in result.values())
    return ", of what it came to only its beginning is left" if cut else ""
