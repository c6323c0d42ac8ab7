"""Plain text in the place of decisions: after some unreadable replies in a row it is the answer."""

from segue.core.decision import ActionType, Decision, holds_object
from segue.core.models import ModelReply

from ..shared.context import NodeContext
from ..shared.model_call import whole_answer
from .state import ReactState

MOST_UNREADABLE = 3
"""Unreadable, empty or truncated replies in a row; then the task ends."""


def unreadable_in_a_row(state: ReactState) -> int:
    """How many of the latest rounds had a reply that could not be read."""
    count = 0
    for record in reversed(state["records"]):
        if record["action_type"] != "UNREADABLE":
            break
        count += 1
    return count


def prose_answer(reply: ModelReply, state: ReactState, work: NodeContext) -> Decision | None:
    """The last unreadable reply's text as the answer, if it is plain text."""
    if unreadable_in_a_row(state) + 1 < MOST_UNREADABLE or reply.tool_calls or not reply.text.strip():
        return None
    if work.agent.protocol == "json" and holds_object(reply.text):
        return None
    return Decision(action_type=ActionType.ANSWER, answer=whole_answer(reply, state["language"]), malformed=True)
