"""Routers of the react graph."""

from typing import Literal

from .state import ReactState


def after_input(state: ReactState) -> Literal["CALL_LLM", "FINISH"]:
    """A spent budget ends the task."""
    return "FINISH" if state["spent"] else "CALL_LLM"


def after_call_llm(state: ReactState) -> Literal["CALL_TOOL", "PLAN", "REMEND", "ANSWER", "INPUT"]:
    """The decision's action; an unreadable reply and a mere reflection go back to INPUT."""
    decision = state["decision"]
    match decision["action_type"] if decision else "":
        case "CALL_TOOL":
            return "CALL_TOOL"
        case "PLAN":
            return "PLAN"
        case "REMEND":
            return "REMEND"
        case "ANSWER":
            return "ANSWER"
        case _:
            return "INPUT"


def after_call_tool(state: ReactState) -> Literal["CALL_TOOL", "INPUT"]:
    """Calls that are left run next, each behind a boundary where a pause can be taken."""
    return "CALL_TOOL" if state["calls"] else "INPUT"


def after_remend(state: ReactState) -> Literal["CALL_TOOL", "PLAN", "INPUT"]:
    """Carry out the correction: its calls, its plan, or neither when repairs are used up."""
    decision = state["decision"]
    if state["calls"]:
        return "CALL_TOOL"
    return "PLAN" if decision and decision["plan"] else "INPUT"
