"""INIT: a new task on the thread."""

from typing import cast

from segue.core.events import TaskStarted

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.task import begin
from .state import ChatState, ChatUpdate


async def init(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
    """Mint the task's id, unless the app has, and reset everything that belongs to a task."""
    work = node_context(runtime)
    fresh = begin(state["messages"], state.get("assignment"), runtime)
    tools = work.services.agents.tools_in(work.agent, work.context.mode or work.agent.mode)
    started = TaskStarted(
        task_id=fresh["task_id"],
        message=fresh["objective"],
        agent_id=work.agent.agent_id,
        model=work.model.name,
        effects=sorted(name for name, tool in {**work.tools, **tools}.items() if not tool.read_only),
    )
    fresh["nested"] = False  # the app hands down the id of a task that this graph ends
    return {**cast(ChatUpdate, fresh), "mode": "", "gave_up": "", "events": announce(started)}
