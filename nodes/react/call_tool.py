"""CALL_TOOL: run the next of the decided calls, once a person has approved those that need it.

The graph comes back here while some are left.
"""

from typing import Any

from langchain_core.messages import AnyMessage

from segue.core.calls import CallResult
from segue.core.decision import Decision
from segue.core.plan import Step

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import end_steps, step_events
from ..shared.tool_messages import Settled, exchange
from .records import control_exchange, decision_of, ids_of, key_of, record_of, runner_of
from .state import ReactState, ReactUpdate


async def call_tool(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Run one call, or up to `parallel_calls` at once where every tool in the batch is read-only.

    Where a person has to approve some, they are asked about all of those at once, and what they decided is stored
    before any call runs. Consecutive calls that the client carries out wait together for their results.
    """
    work = node_context(runtime)
    runner = runner_of(state, work)
    calls, given, ready = await runner.prepare(state["calls"])
    if not ready:
        return {"calls": calls, "events": announce(*given)} if given else {"calls": calls}
    spent = state["tool_calls"] >= work.agent.budget.tool_calls
    group = calls if spent else runner.next_group(calls)
    ran = await runner.run(group)
    if waiting := runner.waiting(calls, ran):
        return {"calls": waiting}
    runner.show_results(ran)
    outcomes = [*state["outcomes"], *map(runner.entry, ran)]
    update: ReactUpdate = {
        "calls": calls[len(group) :],
        "outcomes": outcomes,
        "tool_calls": state["tool_calls"] + sum(done.ran for done in ran),
        "events": announce(*runner.events(ran)),
    }
    if any(done.summary for done in ran):
        update["usage"] = runner.usage(state["usage"], ran)
    return update if update["calls"] else _settle(update, state, outcomes)


def _settle(update: ReactUpdate, state: ReactState, outcomes: list[dict[str, Any]]) -> ReactUpdate:
    """The recursion's calls are done: write its record, move the plan, put the pairs into the history."""
    decision = decision_of(state)
    results = [(o["name"], CallResult.of(o["result"])) for o in outcomes]
    errors = [f"{name}: {result.error}" for name, result in results if not result.success]
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
