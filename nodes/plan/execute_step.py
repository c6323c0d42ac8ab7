"""EXECUTE_STEP: carry out one step's tool call."""

from segue.events import Thinking, ToolResult
from segue.prompts.phrases import phrase
from segue.tools.run import run_call

from ..budgeting import cut_result
from ..context import NodeRuntime, announce, bench
from ..exchange import kept
from .calls import key_of
from .state import PlanUpdate, StepWork


async def execute_step(state: StepWork, runtime: NodeRuntime) -> PlanUpdate:
    """Run the call through the ledger; its outcome is folded into the plan by SCHEDULE."""
    work = bench(runtime)
    item = state["item"]
    banner = phrase("plan_3", state["language"], i=state["place"], n=state["total"], description=item["description"])
    work.emit(Thinking(task_id=state["task_id"], step_id=item["step_id"], content=banner))
    key = key_of(state["task_id"], item)
    budget = work.agent.budget
    outcome = await run_call(
        work.tools, item["name"], item["arguments"], key, work.services.ledger, budget.tool_seconds
    )
    event = ToolResult(
        task_id=state["task_id"],
        step_id=item["step_id"],
        index=0,
        name=item["name"],
        arguments=item["arguments"],
        result=cut_result(outcome.result, budget.result_chars),
        seconds=round(outcome.seconds, 3),
    )
    result = kept(outcome.result, key, work.services.ledger)
    return {"outcomes": [{**item, "result": result}], "events": announce(event)}
