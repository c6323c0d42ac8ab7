"""Routers of the plan graph."""

from typing import Literal

from langgraph.types import Send

from .state import PlanState
from .steps import dispatched

MOST_ASKS = 3
"""A plan that cannot be read or run is asked for twice more."""


def after_make_plan(state: PlanState) -> Literal["DECOMPOSE", "MAKE_PLAN", "GIVE_UP"]:
    """An unreadable plan is asked again, then another mode takes over."""
    if state["draft"] is not None:
        return "DECOMPOSE"
    return "MAKE_PLAN" if state["asked"] < MOST_ASKS else "GIVE_UP"


def after_decompose(state: PlanState) -> Literal["SCHEDULE", "MAKE_PLAN", "GIVE_UP"]:
    """A plan that cannot run is asked again, then another mode takes over."""
    if not state["complaint"]:
        return "SCHEDULE"
    return "MAKE_PLAN" if state["asked"] < MOST_ASKS else "GIVE_UP"


def after_schedule(state: PlanState) -> list[Send] | Literal["MAKE_PLAN", "ANSWER"]:
    """Send the wave out, have a failed plan revised, or answer."""
    if state["wave"]:
        total = len(state["plan"])
        places = {step["step_id"]: place for place, step in enumerate(state["plan"], start=1)}
        shared = {"task_id": state["task_id"], "language": state["language"], "total": total}
        calls = [dispatched(call, state) for call in state["wave"]]
        return [Send("EXECUTE_STEP", {**shared, "call": c, "place": places[c["step_id"]]}) for c in calls]
    return "MAKE_PLAN" if state["complaint"] else "ANSWER"
