"""EXECUTOR: run the chosen tool, once a person has approved it where it needs that."""

from typing import Any

from segue.core.errors import listed
from segue.core.events import CallPermitted, ToolResult
from segue.core.flows import FlowConfig
from segue.core.plan import FINAL, Status, Step, set_status
from segue.core.tools import CallKey
from segue.prompts.phrases import phrase
from segue.tools.calls.run import Outcome, run_call

from ..shared.approval import approved, ask_person, decided, given_events, permitted, question_of, rejection, undecided
from ..shared.context import NodeContext, NodeRuntime, announce, call_context
from ..shared.planned_steps import plans_call, step_events
from ..shared.prompt_budget import truncate_result
from ..shared.tool_messages import kept
from .branches import branches_of, tools_of
from .outcome import outcome_of
from .services import flow_context, ids_of
from .state import FlowNode, FlowState, FlowUpdate


def executor(config: FlowConfig) -> FlowNode:
    """The node of this flow."""

    async def node(state: FlowState, runtime: NodeRuntime) -> FlowUpdate:
        """Run the call through the ledger; what a person decides about it is stored before it runs."""
        work = flow_context(runtime, config)
        call, tools = dict(state["call"] or {}), tools_of(config, work)
        spent = _over_budget(state, work)
        scope = (await permitted([call], tools, state["task_id"], work)).get(0, "")
        if undecided(call, tools, state["task_id"]) and not (spent or scope):
            return await _decide(call, state, work, config)
        ran = spent or await _run(call, state, work, config, bool(scope))
        key = CallKey(state["task_id"], state["trace_id"], 0)
        about = {name: call[name] for name in ("index", "name", "arguments")}
        bounded = truncate_result(ran.result, work.agent.budget.result_chars)
        event = ToolResult(**about, result=bounded, seconds=round(ran.seconds, 3), **ids_of(state))
        named = {"index": call["index"], "name": call["name"]}
        without_question = [CallPermitted(**named, scope=scope, **ids_of(state))] if scope and not spent else []
        old = tuple(Step(**step) for step in state["steps"])
        steps = _settled(old, call, ran)
        result = kept(ran.result, key, work.services.ledger)
        return {
            "call": None,
            "outcome": outcome_of(call["name"], "tool", call["arguments"], result, state),
            "tool_calls": state["tool_calls"] + (call["name"] in tools and "rejected" not in call and not spent),
            "steps": [step.model_dump(mode="json") for step in steps],
            "events": announce(*without_question, event, *step_events(old, steps, ids_of(state))),
        }

    return node


def _settled(steps: tuple[Step, ...], call: dict[str, Any], ran: Outcome) -> tuple[Step, ...]:
    """The plan with the step done, or failed, that names this call."""
    found = (s for s in steps if s.status not in FINAL and plans_call(s, call["name"], call["arguments"]))
    step = next(found, None)
    if step is None or "rejected" in call:
        return steps
    error = str(ran.result.get("error", ""))[:200]
    running = set_status(steps, step.step_id, Status.RUNNING)
    return set_status(running, step.step_id, Status.ERROR if error else Status.DONE, error)


async def _decide(call: dict[str, Any], state: FlowState, work: NodeContext, config: FlowConfig) -> FlowUpdate:
    tools = tools_of(config, work)
    questions = [await question_of(0, call, state["task_id"], work, tools=tools)]
    verdicts = ask_person(questions, tools)
    given = given_events(questions, verdicts, work, **ids_of(state))
    return {"call": decided(call, verdicts.get(0), state["task_id"]), "events": announce(*given)}


def _over_budget(state: FlowState, work: NodeContext) -> Outcome | None:
    most = work.agent.budget.tool_calls
    if state["tool_calls"] < most:
        return None
    why = phrase("spent_calls", state["language"], n=most)
    return Outcome({"error": why, "over_budget": True}, 0.0)


async def _run(
    call: dict[str, Any], state: FlowState, work: NodeContext, config: FlowConfig, by_permission: bool
) -> Outcome:
    tools, name = tools_of(config, work), call["name"]
    if name not in tools:
        known = listed(branches_of(config, work))
        return Outcome({"error": f'There is no branch "{name}"; the branches are: {known}.'}, 0.0)
    if "rejected" in call:
        return Outcome(rejection(call, state["language"]), 0.0)
    key, trace_id = CallKey(state["task_id"], state["trace_id"], 0), state["trace_id"]
    context = call_context(work, key, call, f"{trace_id}/0", trace_id=trace_id)
    allowed, seconds = by_permission or approved(call, state["task_id"]), work.agent.budget.tool_seconds
    return await run_call(tools, name, call["arguments"], key, work.services.ledger, seconds, allowed, context)
