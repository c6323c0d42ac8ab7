"""EXECUTE_STEP: carry out one step's tool call."""

from segue.core.events import CallPermitted, StepUpdate, ToolResult
from segue.tools.calls.run import Outcome, run_call

from ..shared.approval import approved, permitted, rejection
from ..shared.context import NodeContext, NodeRuntime, announce, call_context, node_context
from ..shared.prompt_budget import truncate_result
from ..shared.tool_messages import kept
from .state import PlanUpdate, StepWork
from .steps import ended, key_of, step_banner


async def execute_step(state: StepWork, runtime: NodeRuntime) -> PlanUpdate:
    """Run the call through the ledger and say how the step ended; SCHEDULE folds its outcome into the plan."""
    work = node_context(runtime)
    item = state["item"]
    work.emit(step_banner(state["task_id"], item, state["place"], state["total"], state["language"]))
    key = key_of(state["task_id"], item)
    scope = (await permitted([item], work.tools, state["task_id"], work)).get(0, "")
    outcome = await _run(state, work, bool(scope))
    event = ToolResult(
        task_id=state["task_id"],
        step_id=item["step_id"],
        index=0,
        name=item["name"],
        arguments=item["arguments"],
        result=truncate_result(outcome.result, work.agent.budget.result_chars),
        seconds=round(outcome.seconds, 3),
    )
    result = kept(outcome.result, key, work.services.ledger)
    status, note = ended(result)
    about = {"task_id": state["task_id"], "step_id": item["step_id"], "description": item["description"]}
    moved = StepUpdate(**about, status=status.value, note=note)
    named = {"task_id": state["task_id"], "step_id": item["step_id"], "index": 0, "name": item["name"]}
    without_question = [CallPermitted(**named, scope=scope)] if scope else []
    events = announce(*without_question, event, moved)
    return {"outcomes": [{**item, "result": result, "announced": True}], "events": events}


async def _run(state: StepWork, work: NodeContext, by_permission: bool) -> Outcome:
    item, task_id, ledger = state["item"], state["task_id"], work.services.ledger
    if "rejected" in item:
        return Outcome(rejection(item, state["language"]), 0.0)
    key, seconds = key_of(task_id, item), work.agent.budget.tool_seconds
    allowed = by_permission or approved(item, task_id)
    origin = f"{state.get('origin') or task_id}/{key.scope}"
    context = call_context(work, key, item, origin, step_id=item["step_id"])
    return await run_call(work.tools, item["name"], item["arguments"], key, ledger, seconds, allowed, context)
