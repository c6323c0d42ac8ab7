"""The state of snapshots: the difference between two, and edits of one."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_openai_messages
from pydantic import ValidationError

from ...core.errors import TaskError, listed
from ...core.plan import Step
from ...core.records import Call, Json
from ...core.timeline import SnapshotDifference, SnapshotState
from ...nodes.plan.state import PlanState
from ...nodes.plan.steps import settled_steps
from ...nodes.react.protocols import protocol_of
from ...nodes.react.state import ReactState
from ...nodes.shared.context import NodeContext

_FIXED = frozenset(
    {
        "messages",
        "records",
        "outcomes",
        "task_id",
        "trace_id",
        "nested",
        "origin",
        "events",
        "assignment",
        "result",
        "config",
        "vetted",
    }
)
"""Logs, ids and configurations, which are the engine's own."""
_CALLS = ("calls", "call", "wave")
"""The calls that are decided and did not run."""
_EDITABLE = ("name", "arguments", "description")
"""What can be changed of a call: the rest is its place in the ledger, and what a person decided about it."""
_APART = frozenset(
    {"messages", "plan", "records", "outcomes", "events", "assignment", "result", "draft", "decision", "calls", "wave"}
    | {"task_id", "trace_id", "origin", "nested", "started_at", "notes_taken", "vetted"}
)
"""Channels that are compared by themselves, that only repeat what others say, and ids."""


@dataclass(frozen=True)
class View:
    """A snapshot as it is compared: its place, the values of its graph, the calls that had ended, and its prompt."""

    place: Json
    values: Mapping[str, Any]
    calls: Sequence[Call]
    prompt: str
    """Empty where nothing is to run."""
    next: Sequence[str] = ()
    """The nodes that would run."""


def difference(a: View, b: View) -> SnapshotDifference:
    """What differs between two views."""
    said = _apart(_messages(a.values), _messages(b.values))
    called = _apart(_results(a.calls), _results(b.calls))
    return SnapshotDifference(
        a=a.place,
        b=b.place,
        state=_state(a.values, b.values),
        plan=_plan(_steps(a.values), _steps(b.values)),
        messages=said,
        results=called,
        prompt=_lines(a.prompt, b.prompt) if a.prompt and b.prompt else [],
    )


def state_of(view: View) -> SnapshotState:
    """What the snapshot of a view holds."""
    values = view.values
    state = {name: value for name, value in values.items() if name not in _APART and value not in (None, "", [], {})}
    return SnapshotState(
        place=view.place,
        next=list(view.next),
        messages=_messages(values),
        plan=list(_steps(values).values()),
        results=_results(view.calls),
        state=state,
        editable=sorted(_editable(values) & (state.keys() | {"plan"})) if view.next else [],
        prompt=view.prompt,
    )


def prompt_of(values: Mapping[str, Any], work: NodeContext) -> str:
    """What the model is sent next: in a round of ReAct its whole request, else the agent's prompt and the messages.

    JSON is written in several lines, and the task's own id left out, so that prompts can be compared.
    """
    if "records" in values and "trace_id" in values:
        request = protocol_of(work).request(cast(ReactState, values), work)
        text = _text(request.messages)
    else:
        text = f"{work.agent.prompt}\n{_text(values.get('messages', []))}".strip()
    for name in ("task_id", "trace_id"):
        text = text.replace(values.get(name) or name, name)
    return text


def _text(messages: Sequence[Any]) -> str:
    return "\n".join(f"[{message.type}] {_lines_of(message.text)}" for message in messages)


def _lines_of(text: str) -> str:
    return "\n".join(_indented(line) for line in text.splitlines())


def _indented(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        return json.dumps(json.loads(line), indent=1, ensure_ascii=False)
    except ValueError:
        return line


def _state(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Json]:
    alike = ("iteration" in a and "iteration" in b) or a.keys() == b.keys()
    names = sorted((a.keys() | b.keys()) - _APART if alike else (a.keys() & b.keys()) - _APART - {"usage"})
    return [{"name": name, "a": a.get(name), "b": b.get(name)} for name in names if a.get(name) != b.get(name)]


def _steps(values: Mapping[str, Any]) -> dict[str, Json]:
    """The steps of the plan by their ids; in plan mode as the next node settles them."""
    if values.get("plan") and "wave" in values and "replans" in values:
        return {step.step_id: step.model_dump(mode="json") for step in settled_steps(cast(PlanState, values))}
    steps = values.get("plan") or (values.get("result") or {}).get("plan") or []
    return {str(step["step_id"]): step for step in steps if "step_id" in step}


def _plan(a: Mapping[str, Json], b: Mapping[str, Json]) -> list[Json]:
    rows = [(step_id, a.get(step_id, {}), b.get(step_id, {})) for step_id in {**a, **b}]
    shown = ("description", "status", "action", "params", "note")
    return [
        {
            "step_id": step_id,
            "description": (new or old).get("description", ""),
            "a": old.get("status"),
            "b": new.get("status"),
        }
        for step_id, old, new in rows
        if any(old.get(name) != new.get(name) for name in shown)
    ]


def _messages(values: Mapping[str, Any]) -> list[Json]:
    messages: list[AnyMessage] = values.get("messages", [])
    return convert_to_openai_messages(messages) if messages else []


def _results(calls: Sequence[Call]) -> list[Json]:
    return [{"name": call.name, "arguments": call.arguments, "result": call.outcome} for call in calls]


def _apart(a: list[Json], b: list[Json]) -> dict[str, list[Any]]:
    """What follows the common beginning on each side; ids differ between a session and its fork."""
    same = 0
    while same < min(len(a), len(b)) and _comparable(a[same]) == _comparable(b[same]):
        same += 1
    return {"a": a[same:], "b": b[same:]}


def _comparable(entry: Json) -> str:
    calls = [call["function"] for call in entry.get("tool_calls", ())]
    kept = {name: value for name, value in entry.items() if name not in ("tool_call_id", "tool_calls")}
    return json.dumps([kept, calls], sort_keys=True, default=str)


def _lines(a: str, b: str) -> list[str]:
    found = difflib.unified_diff(a.splitlines(), b.splitlines(), "a", "b", lineterm="", n=1)
    return list(found)[2:]


def _editable(values: Mapping[str, Any]) -> set[str]:
    return {*values.keys()} - _FIXED


def checked_edit(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes in the form that the state holds.

    Raises:
        TaskError: a field is not there, cannot be changed, or its value is of another kind.
    """
    editable = sorted(_editable(values))
    for name in changes:
        if name not in editable:
            raise TaskError(
                "The state has no field '{name}' that can be changed; it has: {known}.",
                name=name,
                known=listed(editable),
            )
    return {name: _checked(name, values[name], value) for name, value in changes.items()}


def _checked(name: str, old: Any, new: Any) -> Any:
    if name == "plan":
        return _checked_plan(new)
    if name in _CALLS and old:
        return _checked_calls(name, old, new) if isinstance(old, list) else _checked_calls(name, [old], [new])[0]
    if old is not None and new is not None and _kind(old) != _kind(new):
        raise TaskError("The field '{name}' has the type {kind}; the new value does not.", name=name, kind=_kind(old))
    return new


def _checked_calls(name: str, old: Sequence[Mapping[str, Any]], new: Any) -> list[dict[str, Any]]:
    """The changed calls, each at the place in the ledger that the old one has."""
    if not isinstance(new, list) or len(new) != len(old) or not all(isinstance(call, Mapping) for call in new):
        raise TaskError(
            "The field '{name}' holds {count} calls: change them in their places.", name=name, count=len(old)
        )
    return [
        {**before, **{field: call[field] for field in _EDITABLE if field in call}}
        for before, call in zip(old, new, strict=True)
    ]


def _checked_plan(steps: Any) -> list[dict[str, Any]]:
    try:
        read = [Step.model_validate(step) for step in steps]
    except (ValidationError, TypeError) as error:
        why = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is not a list of steps"
        raise TaskError("The plan is not valid: {why}.", why=why) from error
    if len({step.step_id for step in read}) < len(read):
        raise TaskError("The plan is not valid: {why}.", why="two steps have one step_id")
    return [step.model_dump(mode="json") for step in read]


def _kind(value: Any) -> str:
    """The JSON kind of a value."""
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
    return "object"
