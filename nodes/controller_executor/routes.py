"""Routers of the controller–executor graph: each node may end the flow with an early exit."""

from typing import Literal

from .state import FlowState


def after_memory_reading(state: FlowState) -> Literal["CONTROLLER", "FINISH"]:
    """The controller decides, unless no round is left."""
    return "FINISH" if state["early_exit"] else "CONTROLLER"


def after_controller(state: FlowState) -> str:
    """The chosen branch's node; a reply that cannot be read is asked for again."""
    return "FINISH" if state["early_exit"] else state["branch_node"] or "CONTROLLER"


def after_executor(state: FlowState) -> Literal["EXECUTOR", "MEMORY_WRITING", "FINISH"]:
    """A call that a person has just decided about runs next."""
    if state["early_exit"]:
        return "FINISH"
    return "EXECUTOR" if state["call"] else "MEMORY_WRITING"


def after_branch(state: FlowState) -> Literal["MEMORY_WRITING", "FINISH"]:
    """The branch's result is stored."""
    return "FINISH" if state["early_exit"] else "MEMORY_WRITING"


def after_memory_writing(state: FlowState) -> Literal["MEMORY_READING", "FINISH"]:
    """The next round begins."""
    return "FINISH" if state["early_exit"] else "MEMORY_READING"
