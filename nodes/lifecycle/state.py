"""State of the lifecycle graph."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from ..shared.channels import Records
from ..shared.context import Node
from ..shared.task import TaskState


class Restored(TypedDict, total=False):
    """What was done of a run that another engine began."""

    phase: str
    """scheduling or executing: continue there; anything else begins at the beginning."""
    context: dict[str, list[str]]
    steps: list[dict[str, Any]]
    results: dict[str, str]
    calls: dict[str, list[dict[str, Any]]]


class LifecycleState(TaskState, total=False):
    """The graph's channels; a node returns those that it changes.

    RECEIVING, or PAUSED for a restored run, resets every channel that belongs to a task.
    """

    notes_taken: int
    """How many additions were read. RECEIVING, PAUSED, DECOMPOSING, COMPLETED."""
    phase: str
    """The engine's state. Every node that ends a phase names the next one."""
    context: dict[str, list[str]]
    """{rules, knowledge, tools}, texts. CONTEXT_FETCHING."""
    asked: int
    """How often the tasks were asked for. DECOMPOSING."""
    complaint: str
    """What is wrong with the tasks that were written; empty if nothing. DECOMPOSING."""
    steps: list[dict[str, Any]]
    """The tasks, as dicts of `SubTask`. DECOMPOSING, EXECUTING."""
    wave: list[str]
    """The ids of the tasks under way. EXECUTING."""
    outcomes: Records
    """One a task that was carried out: {step_id, answer, error, history, calls, unknown, usage}; `unknown` are
    lines about calls of unknown outcome. EXECUTE_SUBTASK."""
    folded: int
    """How many of the outcomes are in `steps` and `results` already. EXECUTING."""
    results: dict[str, str]
    """The results of the completed tasks. EXECUTING."""
    calls: dict[str, list[dict[str, Any]]]
    """Calls that a task made already: {name, arguments, result, ref}. PAUSED from a restored run, EXECUTING."""
    held: bool
    """Whether a pause was requested before the phase began its work. SCHEDULING, EXECUTING; PAUSED takes it back."""
    failure: dict[str, Any] | None
    """{error, phase}: why the run ends in ERROR. RECEIVING, CONTEXT_FETCHING, DECOMPOSING, SCHEDULING, EXECUTING."""


class SubTaskWork(TypedDict):
    """What one EXECUTE_SUBTASK is sent: all that a task sees, and nothing of the others."""

    task_id: str
    language: str
    started_at: float
    goal: str
    context: dict[str, list[str]]
    step: dict[str, Any]
    needed: list[dict[str, Any]]
    """The tasks that it depends on, as dicts of `SubTask` with their `answer`."""
    calls: list[dict[str, Any]]
    """Calls that it made already."""
    attachments: NotRequired[list[dict[str, Any]]]
    """The files of the message; a task that was begun before has none."""
    place: int
    total: int
    completed: int
    """Tasks that were completed when it was sent out."""


LifecycleNode = Node[LifecycleState, LifecycleState]
