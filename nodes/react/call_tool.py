"""CALL_TOOL: run the next of the decided calls; the graph comes back here while some are left."""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage

from segue.decision import Decision
from segue.events import ToolResult
from segue.plan import Step
from segue.services import Tool
from segue.tools.run import Outcome, run_call

from ..budgeting import cut_result
from ..context import Bench, NodeRuntime, announce, bench
from ..exchange import Settled, exchange, kept, recall_ref
from .progress import end_step, step_events
from .recalling import tools_at_hand
from .records import control_exchange, decision_of, ids_of, key_of, record_of
from .repeats import refusal
from .state import ReactState, ReactUpdate

Call = dict[str, Any]


async def call_tool(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Run one call, or the whole batch at once where every tool in it is read-only."""
    work = bench(runtime)
    tools = tools_at_hand(state, work)
    most = work.agent.budget.tool_calls
    group = state["calls"] if state["tool_calls"] >= most else _next_group(state["calls"], tools)
    ran = await asyncio.gather(*(_run(call, state, work, tools) for call in group))
    outcomes = [*state["outcomes"], *(_outcome(state, work, call, o) for call, o in zip(group, ran, strict=True))]
    left = state["calls"][len(group) :]
    update: ReactUpdate = {
        "calls": left,
        "outcomes": outcomes,
        "tool_calls": state["tool_calls"] + sum("over_budget" not in o.result for o in ran),
        "events": announce(*(_result_event(state, work, call, o) for call, o in zip(group, ran, strict=True))),
    }
    return update if left else _settle(update, state, outcomes)


def _next_group(calls: list[Call], tools: Mapping[str, Tool]) -> list[Call]:
    if all(call["name"] in tools and tools[call["name"]].read_only for call in calls):
        return calls
    return calls[:1]


async def _run(call: Call, state: ReactState, work: Bench, tools: Mapping[str, Tool]) -> Outcome:
    if why := refusal(call, state, work.agent.budget.tool_calls):
        return Outcome(why, 0.0)
    key, ledger = key_of(state, call["index"]), work.services.ledger
    return await run_call(tools, call["name"], call["arguments"], key, ledger, work.agent.budget.tool_seconds)


def _outcome(state: ReactState, work: Bench, call: Call, ran: Outcome) -> dict[str, Any]:
    key = key_of(state, call["index"])
    return {**call, "ref": recall_ref(key), "result": kept(ran.result, key, work.services.ledger)}


def _result_event(state: ReactState, work: Bench, call: Call, outcome: Outcome) -> ToolResult:
    bounded = cut_result(outcome.result, work.agent.budget.result_chars)
    about = {name: call[name] for name in ("index", "name", "arguments")}
    return ToolResult(**about, result=bounded, seconds=round(outcome.seconds, 3), **ids_of(state))


def _settle(update: ReactUpdate, state: ReactState, outcomes: list[dict[str, Any]]) -> ReactUpdate:
    """The recursion's calls are done: write its record, move the plan, put the pairs into the history."""
    decision = decision_of(state)
    errors = [f"{o['name']}: {o['result']['error']}" for o in outcomes if "error" in o["result"]]
    steps = tuple(Step(**step) for step in state["plan"])
    moved = end_step(steps, decision.step_id, "; ".join(errors)[:200])
    update["records"] = [record_of(state, decision.action_type.value, decision, outcomes, "\n".join(errors))]
    native = any(call.call_id for call in decision.tool_calls)
    update["messages"] = _exchange(state, decision, native, outcomes)
    update["plan"] = [step.model_dump(mode="json") for step in moved]
    update["events"] = [*update["events"], *announce(*step_events(steps, moved, ids_of(state)))]
    if not errors:
        update["repairs"] = 0
    return update


def _exchange(state: ReactState, decision: Decision, native: bool, outcomes: list[dict[str, Any]]) -> list[AnyMessage]:
    if decision.control_id:
        done = [{name: o[name] for name in ("name", "arguments", "result")} for o in outcomes]
        return control_exchange(decision, {"success": done})
    calls = [Settled(o["call_id"], o["name"], o["arguments"], o["result"], key_of(state, o["index"])) for o in outcomes]
    return exchange(decision.thought if native else "", calls)
