"""PAUSED: a run that stood goes on where it was paused."""

from segue.core.lifecycle import EngineState

from ..shared.context import NodeRuntime
from .init import enter
from .state import LifecycleState, LifecycleUpdate


async def paused(state: LifecycleState, runtime: NodeRuntime) -> LifecycleUpdate:
    """Take over what an earlier engine did; what was under way there is still to be done."""
    restored = state.get("restored")
    if not restored:
        return {"held": False}
    return {**enter(state, runtime), "phase": EngineState(restored["phase"]).value}
