"""State of the react graph: message history and records as logs, the rest a snapshot of the task."""

from typing import Any

from segue.core.calls import PendingCall

from ..shared.channels import Records
from ..shared.task import TaskState


class ReactState(TaskState, total=False):
    """Channels are thread-scoped: INIT resets every one that belongs to a task."""

    notes_taken: int
    """How many additions it holds. INIT, CALL_LLM."""
    iteration: int
    """1…max_iteration. INPUT."""
    trace_id: str
    """Of the recursion. INPUT."""
    spent: str
    """Which budget is spent, in a sentence; empty while there is some left. INPUT."""
    plan: list[dict[str, Any]]
    """Steps. INIT, CALL_LLM, CALL_TOOL, PLAN, ANSWER."""
    vetted: list[dict[str, Any]]
    """Its steps that untrusted text has no part in: {action, params}. INIT, PLAN."""
    records: Records
    """One a finished recursion: decision and result or error. CALL_LLM, CALL_TOOL, PLAN, REMEND."""
    decision: dict[str, Any] | None
    """The decision under way; None after an unreadable reply. CALL_LLM."""
    calls: list[PendingCall]
    """Calls still to run. CALL_LLM and REMEND fix them, CALL_TOOL has them decided and takes from them."""
    outcomes: list[dict[str, Any]]
    """Calls of this recursion that are done with: as in `calls`, with `ref` and `result`. CALL_TOOL."""
    tool_calls: int
    """How many ran in this task. CALL_TOOL."""
    repairs: int
    """REMENDs in a row. CALL_TOOL, REMEND."""


ReactUpdate = ReactState
"""What a node returns: the channels that it changes."""
