"""The record of a recursion, its calls and the ids of its events, and the result that a task's records make."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from segue.core.calls import CallResult, PendingCall
from segue.core.decision import ActionType, Decision
from segue.core.events import ToolCall
from segue.core.plan import Step
from segue.core.tools import RECALL, CallKey

from ..shared.call_runner import CallRunner, call_events
from ..shared.context import NodeContext
from ..shared.plan_progress import steps_of_calls
from ..shared.prompt_budget import truncate_result
from ..shared.task import compose_result
from ..shared.tool_messages import Settled, exchange
from .call_limits import refusal
from .prompt_state import available_tools
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
    """One finished recursion: {iteration, trace_id, action_type, observe, thought, output, results, error, said?}."""
    return {
        "iteration": state["iteration"],
        "trace_id": state["trace_id"],
        "action_type": action_type,
        "observe": decision.observe if decision else "",
        "thought": decision.thought if decision else "",
        "output": decision.output if decision else {},
        "results": results or [],
        "error": error,
        **({"said": decision.said} if decision and decision.said else {}),
    }


def calls_of(state: ReactState, decision: Decision) -> list[PendingCall]:
    """The decision's calls.

    The place is what the ledger knows a call by; the id is the provider's where it gave one, unless it repeats in the
    reply.
    """
    given = [call.call_id for call in decision.tool_calls]
    plan, trace_id = [Step(**step) for step in state["plan"]], state["trace_id"]
    made = [(call.name, call.arguments) for call in decision.tool_calls]
    steps = steps_of_calls(made, plan, decision.step_id, _repaired(state, decision))
    return [
        {
            "index": index,
            "name": call.name,
            "arguments": call.arguments,
            "scope": trace_id,
            "origin": f"{trace_id}/{index}",
            "call_id": call.call_id if given.count(call.call_id) == 1 and call.call_id else f"{trace_id}-{index}",
            "step_id": step_id,
        }
        for index, (call, step_id) in enumerate(zip(decision.tool_calls, steps, strict=True))
    ]


def _repaired(state: ReactState, decision: Decision) -> str:
    """The step whose call failed last, if this is its repair."""
    if decision.action_type is not ActionType.REMEND or not state["records"]:
        return ""
    results = state["records"][-1]["results"]
    return next((o.get("step_id", "") for o in results if not CallResult.of(o["result"]).success), "")


def runner_of(state: ReactState, work: NodeContext) -> CallRunner:
    """What runs the calls of this recursion."""
    recalls = any(call["name"] == RECALL for call in state["calls"])
    tools = available_tools(state, work) if recalls else work.tools
    return CallRunner(
        work,
        tools,
        state["task_id"],
        state["language"],
        ids_of(state),
        lambda call: refusal(call, state, work.agent.budget.tool_calls),
        planned=lambda call: {"action": call["name"], "params": call["arguments"]} in state.get("vetted", ()),
        own=tools.keys() - work.tools.keys(),
    )


def announced_calls(state: ReactState, calls: Sequence[PendingCall], work: NodeContext) -> list[ToolCall]:
    """One event a call, and its banner; they wait together where one of them needs a person's approval."""
    runner = CallRunner(work, work.tools, state["task_id"], state["language"], ids_of(state))
    runner.show_calls(calls)
    return call_events(calls, any(map(runner.undecided, calls)), ids_of(state))


def control_exchange(decision: Decision, result: Mapping[str, Any]) -> list[AnyMessage]:
    """The call of a control tool and what came of it, where the decision came as one."""
    if not decision.control_id:
        return []
    name = "plan" if decision.action_type is ActionType.PLAN else "remend"
    return exchange(decision.thought, [Settled(decision.control_id, name, decision.output, result)])


def whole_answer(state: ReactState, text: str) -> str:
    """The answer, behind what earlier rounds streamed of it."""
    return "\n\n".join([*(record["said"] for record in state["records"] if record.get("said")), text])


def key_of(state: ReactState, index: int) -> CallKey:
    """What the ledger knows a call of this recursion by."""
    return CallKey(state["task_id"], state["trace_id"], index)


def decision_of(state: ReactState) -> Decision:
    """The decision under way."""
    return Decision.model_validate(state["decision"])


def history_entries(state: ReactState, result_chars: int) -> list[dict[str, Any]]:
    """One entry a tool call."""
    return [
        {
            "step": record["iteration"],
            "phase": "execution",
            "action": outcome["name"],
            "result": truncate_result(outcome["result"], result_chars),
            "description": record["thought"],
        }
        for record in state["records"]
        for outcome in record["results"]
    ]


def react_result(
    state: ReactState, answer: str, result_chars: int, thought: str = "", error: str = "", limit: str = ""
) -> dict[str, Any]:
    """The task's result; `thought` is that of the round which answers, `limit` the budget that was spent."""
    thoughts = [*((r["iteration"], r["thought"]) for r in state["records"]), (state["iteration"], thought)]
    return compose_result(
        "react",
        answer,
        history=history_entries(state, result_chars),
        reasoning="\n".join(f"[{iteration}] {text}" for iteration, text in thoughts if text),
        total_steps=state["iteration"],
        plan=state["plan"],
        usage=state["usage"],
        error=error,
        limit=limit,
    )
