"""Router of the controller mode's graph."""

from typing import Literal

from segue.core.plan import numbered_plan

from ..shared.task import PlannedTask


def after_init(state: PlannedTask) -> Literal["GIVEN_PLAN", "MAKE_PLAN"]:
    """A plan that is given, by a caller or in the message, is carried out as it is."""
    return "GIVEN_PLAN" if state["plan"] or numbered_plan(state["objective"]) else "MAKE_PLAN"
