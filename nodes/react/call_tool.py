"""CALL_TOOL: run the next of the decided calls; the graph comes back here while some are left."""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from segue.events import ToolResult
from segue.plan import Step
from segue.services import CallKey, Tool
from segue.tools.run import Outcome, run_call

from ..budgeting import as_json, cut_result
from ..context import Bench, NodeRuntime, announce, bench
from .progress import end_step, step_events
from .records import decision_of, ids_of, record_of
from .repeats import refusal
from .state import ReactState, ReactUpdate

Call = dict[str, Any]


async def call_tool(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Run one call, or the whole batch at once where every tool in it is read-only."""
    work = bench(runtime)
    group = _next_group(state["calls"], work.tools)
    ran = await asyncio.gather(*(_run(call, state, work) for call in group))
    outcomes = [*state["outcomes"], *({**call, "result": o.result} for call, o in zip(group, ran, strict=True))]
    left = state["calls"][len(group) :]
    update: ReactUpdate = {
        "calls": left,
        "outcomes": outcomes,
        "tool_calls": state["tool_calls"] + len(group),
        "events": announce(*(_result_event(state, work, call, o) for call, o in zip(group, ran, strict=True))),
    }
    return update if left else _settle(update, state, outcomes)


def _next_group(calls: list[Call], tools: Mapping[str, Tool]) -> list[Call]:
    if all(call["name"] in tools and tools[call["name"]].read_only for call in calls):
        return calls
    return calls[:1]


async def _run(call: Call, state: ReactState, work: Bench) -> Outcome:
    if why := refusal(call, state, work.agent.budget.tool_calls):
        return Outcome({"error": why}, 0.0)
    key = CallKey(state["task_id"], state["trace_id"], call["index"])
    budget = work.agent.budget
    return await run_call(work.tools, call["name"], call["arguments"], key, work.services.ledger, budget.tool_seconds)


def _result_event(state: ReactState, work: Bench, call: Call, outcome: Outcome) -> ToolResult:
    bounded = cut_result(outcome.result, work.agent.budget.result_chars)
    return ToolResult(**call, result=bounded, seconds=round(outcome.seconds, 3), **ids_of(state))


def _settle(update: ReactUpdate, state: ReactState, outcomes: list[dict[str, Any]]) -> ReactUpdate:
    """The recursion's calls are done: write its record, move the plan, put the pairs into the history."""
    decision = decision_of(state)
    errors = [f"{o['name']}: {o['result']['error']}" for o in outcomes if "error" in o["result"]]
    steps = tuple(Step(**step) for step in state["plan"])
    moved = end_step(steps, decision.step_id, "; ".join(errors)[:200])
    update["records"] = [record_of(state, decision.action_type.value, decision, outcomes, "\n".join(errors))]
    update["messages"] = _pairs(state, outcomes)
    update["plan"] = [step.model_dump(mode="json") for step in moved]
    update["events"] = [*update["events"], *announce(*step_events(steps, moved, ids_of(state)))]
    if not errors:
        update["repairs"] = 0
    return update


def _pairs(state: ReactState, outcomes: list[dict[str, Any]]) -> list[AnyMessage]:
    ids = [f"{state['trace_id']}-{o['index']}" for o in outcomes]
    calls = [
        {"id": call_id, "name": o["name"], "args": o["arguments"], "type": "tool_call"}
        for call_id, o in zip(ids, outcomes, strict=True)
    ]
    results = [
        ToolMessage(
            _content(o["result"]), tool_call_id=call_id, status="error" if "error" in o["result"] else "success"
        )
        for call_id, o in zip(ids, outcomes, strict=True)
    ]
    return [AIMessage("", tool_calls=calls), *results]


def _content(result: dict[str, Any]) -> str:
    value = result["error"] if "error" in result else result["success"]
    return value if isinstance(value, str) else as_json(value)
