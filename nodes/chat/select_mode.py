"""SELECT_MODE: the mode that was asked for, or the one that suits the message."""

from collections.abc import Collection

from segue.core.errors import UnknownMode
from segue.core.events import ModeSelected

from ..shared.context import NodeRuntime, announce, bench
from .auto import pick_mode
from .state import ChatNode, ChatState, ChatUpdate

AUTO = "auto"


def select_mode(modes: Collection[str]) -> ChatNode:
    """The node over these modes."""

    async def select(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Choose who carries the task.

        Raises:
            UnknownMode: listing the modes there are.
        """
        work = bench(runtime)
        asked = work.context.mode or work.agent.mode
        mode = pick_mode(state["objective"]) if asked == AUTO else asked
        if mode not in modes:
            raise UnknownMode(mode, [*modes, AUTO])
        selected = ModeSelected(task_id=state["task_id"], mode=mode, reason="picked" if asked == AUTO else "asked for")
        return {"mode": mode, "events": announce(selected)}

    return select
