"""The record of a recursion, the calls it makes, and the ids its events carry."""

from typing import Any

from segue.decision import Decision

from .state import ReactState


def ids_of(state: ReactState) -> dict[str, Any]:
    """What every event of this recursion carries."""
    return {"task_id": state["task_id"], "trace_id": state["trace_id"], "iteration": state["iteration"]}


def record_of(
    state: ReactState,
    action_type: str,
    decision: Decision | None = None,
    results: list[dict[str, Any]] | None = None,
    error: str = "",
) -> dict[str, Any]:
    """One finished recursion: {iteration, trace_id, action_type, observe, thought, output, results, error}."""
    return {
        "iteration": state["iteration"],
        "trace_id": state["trace_id"],
        "action_type": action_type,
        "observe": decision.observe if decision else "",
        "thought": decision.thought if decision else "",
        "output": decision.output if decision else {},
        "results": results or [],
        "error": error,
    }


def calls_of(decision: Decision) -> list[dict[str, Any]]:
    """The decision's calls with their fixed places: what the ledger knows them by."""
    return [
        {"index": index, "name": call.name, "arguments": call.arguments}
        for index, call in enumerate(decision.tool_calls)
    ]


def decision_of(state: ReactState) -> Decision:
    """The decision under way."""
    return Decision.model_validate(state["decision"])
