"""CALL_TOOL: run the next of the decided calls, once a person has approved those that need it.

The graph comes back here while some are left.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import AnyMessage

from segue.core.decision import Decision
from segue.core.events import CallPermitted, ToolResult
from segue.core.plan import Step
from segue.core.tools import Tool
from segue.tools.calls.run import Outcome, run_call

from ..shared.approval import approved, ask_person, decided, given_events, permitted, question_of, rejection, undecided
from ..shared.context import NodeContext, NodeRuntime, announce, call_context, node_context
from ..shared.planned_steps import step_events
from ..shared.prompt_budget import truncate_result
from ..shared.tool_messages import Settled, exchange, kept, recall_ref
from .call_limits import refusal
from .client_calls import ask_for_results, awaited, origin_of, with_result
from .plan_progress import end_steps
from .prompt_state import tools_at_hand
from .records import control_exchange, decision_of, ids_of, key_of, record_of
from .state import ReactState, ReactUpdate

Call = dict[str, Any]


async def call_tool(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Run one call, or up to `parallel_calls` at once where every tool in the batch is read-only.

    Where a person has to approve some, they are asked about all of those at once, and what they decided is stored
    before any call runs. Consecutive calls that the client carries out wait together for their results.
    """
    work = node_context(runtime)
    recalls = any(call["name"] == "recall" for call in state["calls"])
    tools = tools_at_hand(state, work) if recalls else work.tools
    most = work.agent.budget.tool_calls
    allowed = await permitted(state["calls"], tools, state["task_id"], work)
    if asked := [
        call
        for place, call in enumerate(state["calls"])
        if undecided(call, tools, state["task_id"]) and place not in allowed and not refusal(call, state, most)
    ]:
        return await _decide(asked, state, work, tools)
    if client_calls := awaited(state, tools, work):
        return ask_for_results(client_calls, state)
    group = (
        state["calls"]
        if state["tool_calls"] >= most
        else _next_group(state["calls"], tools, work.agent.budget.parallel_calls)
    )
    ran = await asyncio.gather(*(_run(call, state, work, tools, place in allowed) for place, call in enumerate(group)))
    outcomes = [*state["outcomes"], *(_outcome(state, work, call, o) for call, o in zip(group, ran, strict=True))]
    left = state["calls"][len(group) :]
    without_question = [
        CallPermitted(index=call["index"], name=call["name"], scope=allowed[place], **ids_of(state))
        for place, call in enumerate(group)
        if place in allowed and _ran(ran[place])
    ]
    update: ReactUpdate = {
        "calls": left,
        "outcomes": outcomes,
        "tool_calls": state["tool_calls"] + sum(map(_ran, ran)),
        "events": announce(
            *without_question, *(_result_event(state, work, call, o) for call, o in zip(group, ran, strict=True))
        ),
    }
    return update if left else _settle(update, state, outcomes)


async def _decide(asked: list[Call], state: ReactState, work: NodeContext, tools: Mapping[str, Tool]) -> ReactUpdate:
    """Have a person decide about these calls; the graph is interrupted until they have."""
    questions = [await question_of(call["index"], call, state["task_id"], work) for call in asked]
    verdicts = ask_person(questions, tools)
    return {
        "calls": [decided(call, verdicts.get(call["index"]), state["task_id"]) for call in state["calls"]],
        "events": announce(*given_events(questions, verdicts, work, **ids_of(state))),
    }


def _next_group(calls: list[Call], tools: Mapping[str, Tool], most: int) -> list[Call]:
    """The calls that run next, with a boundary behind them where a pause can be taken."""
    read_only = all(call["name"] in tools and tools[call["name"]].read_only for call in calls)
    return calls[:most] if read_only else calls[:1]


async def _run(
    call: Call, state: ReactState, work: NodeContext, tools: Mapping[str, Tool], by_permission: bool
) -> Outcome:
    if "rejected" in call:
        return Outcome(rejection(call, state["language"]), 0.0)
    if why := refusal(call, state, work.agent.budget.tool_calls):
        return Outcome(why, 0.0)
    key, ledger, seconds = key_of(state, call["index"]), work.services.ledger, work.agent.budget.tool_seconds
    allowed = by_permission or approved(call, state["task_id"])
    trace_id, step_id = state["trace_id"], call.get("step_id", "")
    context = call_context(work, key, call, origin_of(call, state), step_id=step_id, trace_id=trace_id)
    tools = with_result(call, tools)
    return await run_call(tools, call["name"], call["arguments"], key, ledger, seconds, allowed, context)


def _ran(outcome: Outcome) -> bool:
    return not {"over_budget", "rejected", "repeated"} & outcome.result.keys()


def _outcome(state: ReactState, work: NodeContext, call: Call, ran: Outcome) -> dict[str, Any]:
    key = key_of(state, call["index"])
    return {**call, "ref": recall_ref(key), "result": kept(ran.result, key, work.services.ledger)}


def _result_event(state: ReactState, work: NodeContext, call: Call, outcome: Outcome) -> ToolResult:
    bounded = truncate_result(outcome.result, work.agent.budget.result_chars)
    about = {name: call[name] for name in ("index", "name", "arguments")}
    step_id = call.get("step_id", "")  # a checkpoint of an earlier version has none
    return ToolResult(**about, result=bounded, seconds=round(outcome.seconds, 3), step_id=step_id, **ids_of(state))


def _settle(update: ReactUpdate, state: ReactState, outcomes: list[dict[str, Any]]) -> ReactUpdate:
    """The recursion's calls are done: write its record, move the plan, put the pairs into the history."""
    decision = decision_of(state)
    errors = [f"{o['name']}: {o['result']['error']}" for o in outcomes if "error" in o["result"]]
    steps = tuple(Step(**step) for step in state["plan"])
    moved = end_steps(steps, outcomes, decision.step_status_update)
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
        done = [{name: o[name] for name in ("name", "original", "arguments", "result") if name in o} for o in outcomes]
        return control_exchange(decision, {"success": done})
    calls = [Settled(o["call_id"], o["name"], o["arguments"], o["result"], key_of(state, o["index"])) for o in outcomes]
    return exchange(decision.thought if native else "", calls)
