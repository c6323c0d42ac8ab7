"""A task's events, folded: its rounds, the statuses it went through, its plan."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

Form = Mapping[str, Any]
Folded = dict[str, Any]


class CallMade(BaseModel):
    """A call that a round made."""

    index: int
    name: str
    arguments: dict[str, Any]
    step_id: str
    """The plan's step that it works on; empty if none is known."""


class CallEnded(CallMade):
    """What came of it: {"success": value} or {"error": text}."""

    result: dict[str, Any]
    seconds: float


class Recursion(BaseModel):
    """One round of the machine: what it saw, thought, decided and did."""

    trace_id: str
    iteration: int
    step_id: str
    """The plan's step that it works on; empty if none is known."""
    observe: str
    thought: str
    action: dict[str, Any] | None
    calls: list[CallMade]
    results: list[CallEnded]
    errors: list[str]


class StatusChange(BaseModel):
    """The task went from one status to another."""

    seq: int
    timestamp: float
    old: str
    new: str


class PlanStep(BaseModel, extra="allow"):
    """A step as it stands now."""

    step_id: str
    description: str
    status: str


class PlanView(BaseModel):
    """The newest plan; without steps where the task has none."""

    goal: str
    steps: list[PlanStep]


def recursions(forms: Iterable[Form]) -> list[Folded]:
    """The rounds in their order."""
    rounds: dict[str, Folded] = {}
    for form in forms:
        trace_id, data = form["trace_id"], form["data"]
        if not trace_id:
            continue
        kept = rounds.setdefault(trace_id, _empty_round(trace_id, form["iteration"]))
        match form["type"]:
            case "observe" | "thought" as kind:
                kept[kind] = data["text"]
            case "action":
                kept["step_id"] = form["step_id"] or kept["step_id"]
                kept["action"] = {"action_type": data["action_type"], "output": data["output"]}
            case "tool_call":
                kept["calls"].append(_call(form, CallMade))
            case "tool_result":
                kept["results"].append(_call(form, CallEnded))
            case "error":
                kept["errors"].append(data["message"])
    return list(rounds.values())


def _call(form: Form, kind: type[CallMade]) -> Folded:
    return {name: form["step_id"] if name == "step_id" else form["data"][name] for name in kind.model_fields}


def _empty_round(trace_id: str, iteration: int) -> Folded:
    return {
        "trace_id": trace_id,
        "iteration": iteration,
        "step_id": "",
        "observe": "",
        "thought": "",
        "action": None,
        "calls": [],
        "results": [],
        "errors": [],
    }


def states(forms: Iterable[Form]) -> list[Folded]:
    """The statuses that the task went through."""
    changes = (form for form in forms if form["type"] == "state_changed")
    return [
        {"seq": form["seq"], "timestamp": form["timestamp"], "old": form["data"]["old"], "new": form["data"]["new"]}
        for form in changes
    ]


def plan(forms: Iterable[Form]) -> Folded:
    """The newest plan, each step as the events after it left it."""
    goal, steps = "", dict[str, Folded]()
    for form in forms:
        data = form["data"]
        if form["type"] == "plan_update":
            goal = data["goal"]
            steps = {str(step["step_id"]): {"description": "", "status": "pending", **step} for step in data["steps"]}
        elif form["type"] == "step_update" and form["step_id"] in steps:
            changed = {"status": data["status"], **({"note": data["note"]} if data.get("note") else {})}
            steps[form["step_id"]] = {**steps[form["step_id"]], **changed}
    return {"goal": goal, "steps": list(steps.values())}
