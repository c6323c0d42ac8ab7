"""State of the chat graph."""

from collections.abc import Awaitable
from typing import Protocol

from ..shared.context import NodeRuntime
from ..shared.task import TaskState


class ChatState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    mode: str
    """SELECT_MODE, and a mode that falls back to another."""
    gave_up: str
    """Why the last mode gave up; empty if it did not. The modes."""


ChatUpdate = ChatState
"""What a node returns: the channels that it changes."""


class ChatNode(Protocol):
    """A node of the chat graph that is made for a set of modes or for one."""

    def __call__(self, state: ChatState, runtime: NodeRuntime) -> Awaitable[ChatUpdate]: ...
