"""FINISH: the task ends with its mode's result."""

from segue.events import TaskComplete

from ..context import NodeRuntime, announce
from .state import ChatState, ChatUpdate


async def finish(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Say that the task is complete."""
    result = state["result"] or {}
    status = "done" if result.get("success") else "error"
    return {"events": announce(TaskComplete(task_id=state["task_id"], status=status, result=result))}
