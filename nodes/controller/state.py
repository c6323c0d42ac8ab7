"""State of the controller mode's graph."""

from typing import Any

from ..shared.task import GraphInput, PlannedTask


class ControllerInput(GraphInput, total=False):
    """What the graph is invoked with: a message, or what the flow itself takes."""

    plan: Any
    """A text, or steps: [{"step_id", "description", "status"?}]; without one, that of the message, or a new one."""
    memory_files: dict[str, str]
    """The paths of memory files by their names."""
    goal: str
    """Instead of a message."""
    logs: str
    """What was done before."""


class ControllerState(PlannedTask, total=False):
    """INIT resets every channel that belongs to a task, CONTROLLER_EXECUTOR clears the inputs."""

    goal: str
    """The input, then that of the plan. DECOMPOSE."""
    memory_files: dict[str, str]
    logs: str
    branch: str
    """The branches that lead here, where a flow has this graph as one. INIT."""
