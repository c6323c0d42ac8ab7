"""The record of a recursion, the calls it makes, and the ids its events carry."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from segue.decision import ActionType, Decision

from ..budgeting import as_json
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


def calls_of(state: ReactState, decision: Decision) -> list[dict[str, Any]]:
    """The decision's calls: {index, name, arguments, call_id}.

    The place is what the ledger knows a call by; the id is the provider's where it gave one, unless it repeats in the
    reply.
    """
    given = [call.call_id for call in decision.tool_calls]
    return [
        {
            "index": index,
            "name": call.name,
            "arguments": call.arguments,
            "call_id": call.call_id
            if given.count(call.call_id) == 1 and call.call_id
            else f"{state['trace_id']}-{index}",
        }
        for index, call in enumerate(decision.tool_calls)
    ]


def exchange_of(
    thought: str, calls: Sequence[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]]
) -> list[AnyMessage]:
    """A round's calls, each (id, name, arguments, result), and their results as the thread's history keeps them."""
    made = [{"id": i, "name": n, "args": dict(a), "type": "tool_call"} for i, n, a, _ in calls]
    results = [
        ToolMessage(_content(result), tool_call_id=i, status="error" if "error" in result else "success")
        for i, _, _, result in calls
    ]
    return [AIMessage(thought, tool_calls=made), *results]


def _content(result: Mapping[str, Any]) -> str:
    value = result["error"] if "error" in result else result["success"]
    return value if isinstance(value, str) else as_json(value)


def control_exchange(decision: Decision, result: Mapping[str, Any]) -> list[AnyMessage]:
    """The call of a control tool and what came of it, where the decision came as one."""
    if not decision.control_id:
        return []
    name = "plan" if decision.action_type is ActionType.PLAN else "remend"
    return exchange_of(decision.thought, [(decision.control_id, name, decision.output, result)])


def decision_of(state: ReactState) -> Decision:
    """The decision under way."""
    return Decision.model_validate(state["decision"])
