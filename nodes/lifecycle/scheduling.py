"""SCHEDULING: put the tasks in order, by their dependencies and then by their priority."""

from segue.core.lifecycle import MOST_TASKS, EngineEventType, EngineState, in_order
from segue.core.plan import problems

from ..shared.context import NodeRuntime, announce
from .events import changed, engine_event, tasks_of
from .state import LifecycleState


async def scheduling(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
    """Say in which order the tasks will be carried out; tasks from elsewhere that cannot be end the run."""
    if runtime.drain_requested:
        return {"held": True}
    tasks, task_id = tasks_of(state["steps"]), state["task_id"]
    if found := problems(tasks, max_steps=MOST_TASKS):
        why = "The tasks cannot be carried out: " + "; ".join(found) + "."
        return {"failure": {"error": why, "phase": state["phase"]}}
    scheduled = [
        engine_event(task_id, EngineEventType.TASK_SCHEDULED, {"task_id": task.step_id, "priority": task.priority})
        for task in in_order(tasks)
    ]
    events = announce(*scheduled, changed(task_id, state["phase"], EngineState.EXECUTING))
    return {"phase": EngineState.EXECUTING.value, "events": events}
