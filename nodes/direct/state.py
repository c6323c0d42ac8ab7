"""State of the direct graph."""

from ..shared.task import TaskState


class DirectState(TaskState, total=False):
    """INIT resets every channel that belongs to a task."""

    notes_taken: int
    """How many additions the objective holds. INIT, ANSWER."""
    gave_up: str
    """ANSWER."""


DirectUpdate = DirectState
"""What a node returns: the channels that it changes."""
