"""What the chat graph keeps."""

from collections.abc import Awaitable
from typing import Any, Protocol

from typing_extensions import TypedDict

from ..shared.channels import Events, History
from ..shared.context import NodeRuntime
from ..shared.task import Assignment


class ChatState(TypedDict, total=False):
    """INIT resets every channel that belongs to a task."""

    messages: History
    """The thread's messages, shared by all modes. Written by the caller and the modes."""
    assignment: Assignment | None
    task_id: str
    nested: bool
    objective: str
    language: str
    started_at: float
    usage: dict[str, Any]
    """INIT, as the five above; `usage` also by the modes."""
    mode: str
    """SELECT_MODE, and a mode that falls back to another."""
    gave_up: str
    """Why the last mode gave up; empty if it did not. The modes."""
    result: dict[str, Any] | None
    """The modes."""
    events: Events


ChatUpdate = ChatState
"""What a node returns: the channels that it changes."""


class ChatNode(Protocol):
    """A node of the chat graph that is made for a set of modes or for one."""

    def __call__(self, state: ChatState, runtime: NodeRuntime) -> Awaitable[ChatUpdate]: ...
