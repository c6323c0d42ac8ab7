"""PAUSED: a paused run continues where it was paused."""

from segue.core.lifecycle import EngineState

from ..shared.context import NodeRuntime
from .receiving import entered
from .state import LifecycleNode, LifecycleState, Restored


def paused(restored: Restored | None = None) -> LifecycleNode:
    """The node of a run that may begin with what an earlier engine did."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Take over what was done before if the run begins here."""
        if not restored or not state.get("assignment"):
            return {"held": False}
        return {**entered(state, runtime, restored), "phase": EngineState(restored["phase"]).value}

    return node
