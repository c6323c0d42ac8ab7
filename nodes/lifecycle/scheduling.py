"""SCHEDULING: put the tasks in order, by their dependencies and then by their priority."""

from segue.core.clause import together
from segue.core.errors import InvalidPlan
from segue.core.lifecycle import MOST_TASKS, EngineEventType, EngineState, in_order
from segue.core.plan import problems
from segue.prompts import errors

from ..shared.context import NodeRuntime, announce
from .events import changed, engine_event, tasks_of
from .state import LifecycleState


async def scheduling(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """Say in which order the tasks will be carried out; tasks from elsewhere that cannot be end the run."""
    if runtime.drain_requested:
        return {"held": True}
    tasks, task_id = tasks_of(state["steps"]), state["task_id"]
    if found := problems(tasks, max_steps=MOST_TASKS):
        invalid = InvalidPlan("The tasks cannot be run: {why}.", why=together(found))
        return {"failure": {"error": errors.render(invalid, state["language"]), "phase": state["phase"]}}
    scheduled = [
        engine_event(task_id, EngineEventType.TASK_SCHEDULED, {"task_id": task.step_id, "priority": task.priority})
        for task in in_order(tasks)
    ]
    events = announce(*scheduled, changed(task_id, state["phase"], EngineState.EXECUTING))
    return {"phase": EngineState.EXECUTING.value, "events": events}
