"""The beginning of a run: everything that belongs to a task is reset, or taken over from an earlier run of it."""

from typing import cast

from langgraph.types import Overwrite

from segue.core.subtasks import waiting_again

from ..shared.context import NodeRuntime
from ..shared.task import additions, begin
from .events import as_steps, tasks_of
from .state import LifecycleState, LifecycleUpdate, Restored


def enter(state: LifecycleState, runtime: NodeRuntime) -> LifecycleUpdate:
    """The channels of a new run.

    Raises:
        InvalidMessage: there is nothing that could be done.
    """
    return {
        **cast(LifecycleUpdate, begin(state["messages"], state.get("assignment"), runtime)),
        **emptied(state.get("restored") or {}),
        "notes": len(additions(state["messages"])),
    }


def emptied(left: Restored) -> LifecycleUpdate:
    """Everything that RECEIVING does not read from the message, with what a restored run has done already."""
    return {
        "restored": None,
        "context": left.get("context") or {},
        "asked": 0,
        "complaint": "",
        "steps": as_steps(waiting_again(tasks_of(left.get("steps") or ()))),
        "wave": [],
        "outcomes": Overwrite([]),
        "folded": 0,
        "results": left.get("results") or {},
        "calls": left.get("calls") or {},
        "held": False,
        "failure": None,
    }
