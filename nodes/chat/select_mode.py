"""SELECT_MODE: the mode that was asked for, or the one that suits the message."""

import re
from collections.abc import Collection
from typing import Literal

from segue.core.errors import UnknownMode
from segue.core.events import ModeSelected

from ..shared.context import NodeRuntime, announce, node_context
from .state import ChatNode, ChatState, ChatUpdate

AUTO = "auto"
Picked = Literal["direct", "react", "plan"]

_GREETING = re.compile(
    r"^(你好|您好|嗨|哈喽|哈啰|在吗|在么|早上好|早安|下午好|晚上好|晚安|谢谢|多谢|再见|拜拜|"
    r"hello|hi|hey|hiya|good (morning|afternoon|evening|night)|thanks|thank you|bye|goodbye)"
    r"([呀啊哦吗]| there| all| everyone)?$",
    re.IGNORECASE,
)
_MARKS = re.compile(r"[\s!！?？。.,，~～、]+")
_PLAN = re.compile(r"规划|计划|行程安排|行程|攻略|\b(plan|plans|planning|itinerary|itineraries)\b", re.IGNORECASE)


def select_mode(modes: Collection[str]) -> ChatNode:
    """The node over these modes."""

    async def select(state: ChatState, runtime: NodeRuntime) -> ChatUpdate:
        """Choose who carries the task.

        Raises:
            UnknownMode: listing the modes there are.
        """
        work = node_context(runtime)
        asked = work.context.mode or work.agent.mode
        mode = pick_mode(state["objective"]) if asked == AUTO else asked
        if mode not in modes:
            raise UnknownMode(mode, [*modes, AUTO])
        selected = ModeSelected(task_id=state["task_id"], mode=mode, reason="picked" if asked == AUTO else "asked for")
        return {"mode": mode, "events": announce(selected)}

    return select


def pick_mode(message: str) -> Picked:
    """A mere greeting goes direct, a wish for a plan goes plan, all else goes react."""
    parts = [part for part in _MARKS.split(message) if part]
    if parts and (all(_GREETING.match(part) for part in parts) or _GREETING.match(" ".join(parts))):
        return "direct"
    return "plan" if _PLAN.search(message) else "react"
