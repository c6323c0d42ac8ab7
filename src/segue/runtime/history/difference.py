"""The difference between two snapshots: state, plan, messages, results and prompt."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.messages import AnyMessage, convert_to_openai_messages

from ...core.records import Call, Json
from ...core.timeline import SnapshotDifference
from ...nodes.react.protocols import protocol_of
from ...nodes.react.state import ReactState
from ...nodes.shared.context import NodeContext

_APART = frozenset(
    {"messages", "plan", "records", "outcomes", "events", "assignment", "result", "draft", "decision", "calls", "wave"}
    | {"task_id", "trace_id", "origin", "nested", "started_at", "notes"}
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
    steps = values.get("plan") or (values.get("result") or {}).get("plan") or []
    ran = {outcome.get("step_id"): outcome["result"] for outcome in values.get("outcomes") or ()}
    return {str(step["step_id"]): _settled(step, ran) for step in steps if "step_id" in step}


def _settled(step: Json, ran: Mapping[str | None, Json]) -> Json:
    """A step whose call has ended, as the next node of the graph sets it."""
    result = ran.get(step["step_id"])
    if result is None or step.get("status") != "running":
        return step
    return {**step, "status": "error" if "error" in result else "done"}


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
