"""State of the controller–executor graph."""

from typing import Any

from typing_extensions import TypedDict

from segue.core.calls import PendingCall

from ..shared.channels import Events, Records
from ..shared.context import Node
from ..shared.task import Assignment


class FlowInput(TypedDict, total=False):
    """What the graph is invoked with; INIT takes it in and clears it."""

    plan: Any
    """A text, or steps: [{"step_id", "description", "status"?}]."""
    memory_files: dict[str, str]
    """The paths of memory files by their names."""
    goal: str
    logs: str
    """What was done before."""
    assignment: Assignment | None


class FlowOutput(TypedDict):
    """What the graph returns."""

    result: Any
    """For the caller's controller."""
    summary: str
    """For the caller's logs."""
    status: str
    """finished or unfinished."""


class FlowState(FlowInput, total=False):
    """INIT resets every channel that belongs to a task."""

    task_id: str
    language: str
    started_at: float
    objective: str
    """The goal, and what was added to it. INIT, CONTROLLER."""
    attachments: list[dict[str, Any]]
    """The files of the message that the goal comes from. INIT."""
    added: list[str]
    """What a person added to the task. CONTROLLER."""
    branch: str
    """The flow's name, or the branches that lead to it, joined by dots. INIT."""
    files: dict[str, str]
    """The memory files. INIT."""
    before: str
    """The caller's logs. INIT."""
    steps: list[dict[str, Any]]
    """The plan. INIT, PLAN, EXECUTOR, FINISH."""
    round: int
    trace_id: str
    """MEMORY_READING, as `round`."""
    memory: str
    """What was read of the memory files. MEMORY_READING."""
    memory_error: str
    """Why a memory file cannot be read or written; empty if none. MEMORY_READING, MEMORY_WRITING."""
    asked: int
    """Replies of this round that could not be read. CONTROLLER; 0 again by MEMORY_READING."""
    complaint: str
    """What is wrong with the last one. CONTROLLER, MEMORY_READING."""
    branch_node: str
    """The node of the chosen branch; empty while none is chosen. CONTROLLER."""
    call: PendingCall | None
    """The branch under way. CONTROLLER, EXECUTOR."""
    outcome: dict[str, Any] | None
    """The outcome: {branch, kind, arguments, result, summary}, `said` of an answer, `approved` by a person.

    The branches."""
    records: Records
    """The outcome of every round, with its `round` and `trace_id`. MEMORY_WRITING."""
    tool_calls: int
    """How many tools ran. EXECUTOR."""
    early_exit: dict[str, Any] | None
    """{EARLY_EXIT, result, summary, status, by_user} once the flow has to end, with what was `streamed` of its result.
    Any node; looked at after every node."""
    usage: dict[str, Any]
    """CONTROLLER, the branches."""
    result: Any
    summary: str
    status: str
    """FINISH, as the two above."""
    events: Events


FlowUpdate = FlowState
"""What a node returns: the channels that it changes."""
FlowNode = Node[FlowState, FlowUpdate]
