"""EXECUTOR: run the chosen tool, once a person has approved it where it needs that."""

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.core.errors import listed
from segue.core.flows import FlowConfig
from segue.core.plan import Step
from segue.prompts.catalogue import phrase

from ..shared.call_runner import CallRunner
from ..shared.context import NodeContext, NodeRuntime, announce
from ..shared.plan_progress import end_steps, step_events
from ..shared.repeated_calls import refused_repeat
from .branches import branches_of, flow_context, ids_of, tools_of
from .outcome import outcome_of, rounds_of
from .state import FlowNode, FlowState, FlowUpdate


def executor(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Run the call through the ledger; what a person decides about it is stored before it runs."""
        work = flow_context(runtime, config)
        call = state["call"] or {}
        runner = runner_of(state, work, config)
        (call,), given, ready = await runner.prepare([call])
        if not ready:
            return {"call": call, "events": announce(*given)} if given else {"call": call}
        (ran,) = done = await runner.run([call])
        if waiting := runner.waiting([call], done):
            return {"call": waiting[0]}
        if ran.result.status is CallStatus.REFUSED:
            runner.show_results(done)
        entry = runner.entry(ran)
        old = tuple(Step(**step) for step in state["steps"])
        steps = end_steps(old, [entry])
        outcome = outcome_of(call["name"], "tool", entry["arguments"], entry["result"], state)
        update: FlowUpdate = {
            "call": None,
            "outcome": outcome | ({"approved": entry["approved"]} if "approved" in entry else {}),
            "tool_calls": state["tool_calls"] + ran.ran,
            "steps": [step.model_dump(mode="json") for step in steps],
            "events": announce(*runner.events(done), *step_events(old, steps, ids_of(state))),
        }
        if ran.summary:
            update["usage"] = runner.usage(state["usage"], done)
        return update

    return node


def runner_of(state: FlowState, work: NodeContext, config: FlowConfig) -> CallRunner:
    """What runs the tool of a round."""
    tools = tools_of(config, work)

    def refuse(call: PendingCall) -> CallResult | None:
        if call["name"] not in tools:
            known = listed(branches_of(config, work))
            return CallResult.failed(phrase("no_branch", state["language"], name=call["name"], known=known))
        most = work.agent.budget.tool_calls
        if state["tool_calls"] < most:
            return refused_repeat(call, rounds_of(state), state["task_id"], state["language"])
        return CallResult(status=CallStatus.OVER_BUDGET, error=phrase("spent_calls", state["language"], n=most))

    return CallRunner(
        work, tools, state["task_id"], state["language"], ids_of(state), refuse, memory=state.get("memory", "")
    )
