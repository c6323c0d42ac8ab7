"""EXECUTE_STEP: carry out one step's tool call."""

from segue.core.calls import CallStatus
from segue.core.plan import Status, Step

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import end_steps, step_event
from ..shared.waits import marked_wait, waited
from .schedule import runner_of
from .state import PlanUpdate, StepWork
from .steps import step_banner


async def execute_step(state: StepWork, runtime: NodeRuntime) -> PlanUpdate:
    """Run the call through the ledger and say how the step ended; SCHEDULE folds its outcome into the plan."""
    work = node_context(runtime)
    call, runner = state["call"], runner_of(state, work)
    work.emit(step_banner(state["task_id"], call, state["place"], state["total"], state["language"]))
    (done,) = ran = await runner.run([call])
    if done.result.status is CallStatus.WAITING:  # nothing else interrupts the graph in this node
        ran = await runner.run([waited(marked_wait(done.call, done.result), state["language"])])
    outcome = runner.entry(ran[0])
    if ran[0].summary:
        outcome["usage"] = ran[0].summary.usage
    running = Step(step_id=call["step_id"], description=call["description"], status=Status.RUNNING)
    (step,) = end_steps((running,), [outcome])
    events = announce(*runner.events(ran), step_event(step, {"task_id": state["task_id"]}))
    return {"outcomes": [{**outcome, "announced": True}], "events": events}
