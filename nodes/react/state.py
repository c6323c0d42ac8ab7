"""What the react graph keeps: message history and records as logs, the rest a snapshot of the task."""

from typing import Any

from typing_extensions import TypedDict

from ..shared.channels import Events, History, Records
from ..shared.task import Assignment


class ReactState(TypedDict, total=False):
    """Channels are thread-scoped: INIT resets every one that belongs to a task."""

    messages: History
    """The thread's messages. Written by the caller, CALL_LLM (what was added), CALL_TOOL, ANSWER and FINISH."""
    assignment: Assignment | None
    task_id: str
    """Of the user's message. INIT."""
    nested: bool
    """Whether a parent graph ends the task. INIT."""
    objective: str
    """The user's message, and what was added to it since. INIT, CALL_LLM."""
    notes: int
    """How many additions it holds. INIT, CALL_LLM."""
    language: str
    """zh or en. INIT."""
    started_at: float
    """Unix seconds. INIT."""
    iteration: int
    """1…max_iteration. INPUT."""
    trace_id: str
    """Of the recursion. INPUT."""
    spent: str
    """Which budget is spent, in a sentence; empty while there is some left. INPUT."""
    plan: list[dict[str, Any]]
    """Steps. INIT, CALL_LLM, CALL_TOOL, PLAN, ANSWER."""
    records: Records
    """One a finished recursion: decision and result or error. CALL_LLM, CALL_TOOL, PLAN, REMEND."""
    decision: dict[str, Any] | None
    """The decision under way; None after an unreadable reply. CALL_LLM."""
    calls: list[dict[str, Any]]
    """Calls still to run: {index, name, arguments, call_id, step_id}, and once a person decided about one,
    `approved` (in which task), `original` (the arguments before an edit) or `rejected` (why). CALL_LLM and REMEND fix
    them, CALL_TOOL has them decided and takes from them."""
    outcomes: list[dict[str, Any]]
    """Calls of this recursion that are done with: as in `calls`, with `ref` and `result`. CALL_TOOL."""
    tool_calls: int
    """How many ran in this task. CALL_TOOL."""
    repairs: int
    """REMENDs in a row. CALL_TOOL, REMEND."""
    usage: dict[str, Any]
    """Tokens and model calls. CALL_LLM."""
    result: dict[str, Any] | None
    """ANSWER, FINISH."""
    events: Events
    """What happened in a node, for the event log."""


ReactUpdate = ReactState
"""What a node returns: the channels that it changes."""
