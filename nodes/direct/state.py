"""What the direct graph keeps."""

from typing import Any

from typing_extensions import TypedDict

from ..shared.channels import Events, History
from ..shared.task import Assignment


class DirectState(TypedDict, total=False):
    """INIT resets every channel that belongs to a task."""

    messages: History
    """The thread's messages. Written by the caller and ANSWER."""
    assignment: Assignment | None
    task_id: str
    nested: bool
    objective: str
    language: str
    started_at: float
    """INIT, as the four above; `objective` also by ANSWER."""
    notes: int
    """How many additions the objective holds. INIT, ANSWER."""
    usage: dict[str, Any]
    """ANSWER."""
    result: dict[str, Any] | None
    """ANSWER."""
    gave_up: str
    """ANSWER."""
    events: Events


DirectUpdate = DirectState
"""What a node returns: the channels that it changes."""
