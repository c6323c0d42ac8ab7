"""RECEIVING: a new run begins."""

from typing import Any, cast

from langgraph.types import Overwrite

from segue.core.errors import InvalidMessage
from segue.core.lifecycle import EngineState
from segue.prompts.errors import render

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.plan_progress import restart_steps
from ..shared.task import additions, begin
from .events import as_steps, changed, tasks_of
from .state import LifecycleNode, LifecycleState, Restored


def receiving(restored: Restored | None = None) -> LifecycleNode:
    """The node of a new run, or of a restored one."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Read the input; one without anything to do ends the run."""
        try:
            fresh = entered(state, runtime, restored)
        except InvalidMessage as error:
            return _refused(state, node_context(runtime), error)
        task_id = fresh["task_id"]
        events = announce(
            changed(task_id, EngineState.IDLE, EngineState.RECEIVING),
            changed(task_id, EngineState.RECEIVING, EngineState.CONTEXT_FETCHING),
        )
        return {**fresh, "phase": EngineState.CONTEXT_FETCHING.value, "events": events}

    return node


def entered(state: LifecycleState, runtime: NodeRuntime, restored: Restored | None) -> LifecycleState:
    """The channels of a new run; what was under way in a restored one is to be done again.

    Raises:
        InvalidMessage: there is nothing to do.
    """
    return {
        **cast(LifecycleState, begin(state["messages"], state.get("assignment"), runtime)),
        **_reset(restored or {}),
        "notes_taken": len(additions(state["messages"])),
    }


def _reset(restored: Restored) -> LifecycleState:
    return {
        "context": restored.get("context") or {},
        "asked": 0,
        "complaint": "",
        "steps": as_steps(restart_steps(tasks_of(restored.get("steps") or ()))),
        "wave": [],
        "outcomes": cast(Any, Overwrite([])),
        "folded": 0,
        "results": restored.get("results") or {},
        "calls": restored.get("calls") or {},
        "held": False,
        "failure": None,
    }


def _refused(state: LifecycleState, work: NodeContext, error: InvalidMessage) -> LifecycleState:
    given = (state.get("assignment") or {}).get("task_id")
    task_id, language = given or work.services.ids.task(), work.agent.language or work.context.language or "en"
    return {
        **_reset({}),
        "assignment": None,
        "task_id": task_id,
        "nested": given is not None,
        "objective": "",
        "language": language,
        "started_at": work.services.clock(),
        "usage": {},
        "result": None,
        "notes_taken": 0,
        "phase": EngineState.RECEIVING.value,
        "failure": {"error": render(error, language), "phase": EngineState.RECEIVING.value},
        "events": announce(changed(task_id, EngineState.IDLE, EngineState.RECEIVING)),
    }
