"""RECEIVING: a new run begins."""

from segue.core.errors import InvalidMessage
from segue.core.lifecycle import EngineState

from ..shared.context import Bench, NodeRuntime, announce, bench
from .events import changed
from .init import emptied, enter
from .state import LifecycleState, LifecycleUpdate


async def receiving(state: LifecycleState, runtime: NodeRuntime) -> LifecycleUpdate:
    """Read the input; one that holds nothing to do ends the run."""
    try:
        fresh = enter(state, runtime)
    except InvalidMessage as error:
        return _refused(state, bench(runtime), str(error))
    task_id = fresh["task_id"]
    events = announce(
        changed(task_id, EngineState.IDLE, EngineState.RECEIVING),
        changed(task_id, EngineState.RECEIVING, EngineState.CONTEXT_FETCHING),
    )
    return {**fresh, "phase": EngineState.CONTEXT_FETCHING.value, "events": events}


def _refused(state: LifecycleState, work: Bench, error: str) -> LifecycleUpdate:
    given = (state.get("assignment") or {}).get("task_id")
    task_id = given or work.services.ids.task()
    return {
        **emptied({}),
        "assignment": None,
        "task_id": task_id,
        "nested": given is not None,
        "objective": "",
        "language": "en",
        "started_at": work.services.clock(),
        "usage": {},
        "result": None,
        "notes": 0,
        "phase": EngineState.RECEIVING.value,
        "failure": {"error": error, "phase": EngineState.RECEIVING.value},
        "events": announce(changed(task_id, EngineState.IDLE, EngineState.RECEIVING)),
    }
