"""Routers of the chat graph."""

from typing import Literal

from .state import ChatState


def after_select_mode(state: ChatState) -> str:
    """The chosen mode's node."""
    return state["mode"]


def after_mode(state: ChatState) -> Literal["react", "FINISH"]:
    """A mode that gave up is followed by react."""
    return "react" if state["gave_up"] else "FINISH"
