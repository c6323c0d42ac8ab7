"""INIT: a new task on the thread."""

from typing import Any, cast

from segue.core.calls import CallResult

from ..shared.channels import replaced
from ..shared.context import NodeRuntime
from ..shared.task import additions, begin
from .state import ReactState, ReactUpdate


async def init(state: ReactState, runtime: NodeRuntime) -> ReactUpdate:
    """Mint the task's id and reset everything that belongs to a task."""
    assignment = state.get("assignment")
    done = (assignment or {}).get("done") or []
    return {
        **cast(ReactUpdate, begin(state["messages"], assignment, runtime)),
        "notes_taken": len(additions(state["messages"])),
        "iteration": 0,
        "trace_id": "",
        "spent": "",
        "plan": (assignment or {}).get("plan") or [],
        "vetted": (assignment or {}).get("vetted") or [],
        "records": replaced([_before(done)] if done else []),
        "decision": None,
        "calls": [],
        "outcomes": [],
        "tool_calls": len(done),
        "repairs": 0,
    }


def _before(done: list[dict[str, Any]]) -> dict[str, Any]:
    """What another mode did for the task, as a record before the first round."""
    results = [(call["name"], CallResult.of(call["result"])) for call in done]
    failed = "\n".join(f"{name}: {result.error}" for name, result in results if not result.success)
    kept = {"iteration": 0, "trace_id": "", "action_type": "CALL_TOOL", "observe": "", "thought": "", "output": {}}
    return {**kept, "results": done, "error": failed}
