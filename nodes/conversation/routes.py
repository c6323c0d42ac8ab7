"""Routers of the conversation graph: the referee only routes."""

from typing import Literal

from .state import ConversationState


def after_user(state: ConversationState) -> Literal["BOT", "FINISH"]:
    """The bot answers, unless the user ended the conversation."""
    return "FINISH" if state["end_reason"] else "BOT"


def after_bot(state: ConversationState) -> Literal["API", "USER", "FINISH"]:
    """A call is carried out; after a response it is the user's turn, unless that was the last one."""
    if state["utterances"][-1].get("action"):
        return "API"
    return "FINISH" if state["end_reason"] else "USER"


def after_api(state: ConversationState) -> Literal["API", "BOT"]:
    """The bot continues with the result; a call that has none yet is continued first."""
    return "API" if state["calls"] else "BOT"
