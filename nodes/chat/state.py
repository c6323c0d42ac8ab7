"""State of the chat graph."""

from ..shared.context import Node
from ..shared.task import TaskState


class ChatState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    mode: str
    """SELECT_MODE, and a mode that falls back to another."""
    gave_up: str
    """Why the last mode gave up; empty if it did not. The modes."""


ChatUpdate = ChatState
"""What a node returns: the channels that it changes."""
ChatNode = Node[ChatState, ChatUpdate]
