"""FINISH: the conversation ended; its transcript is the answer."""

from collections.abc import Iterable
from typing import Any

from langchain_core.messages import AIMessage

from segue.core.conversation import Conversation, Ending, EndReason, Role, transcript
from segue.core.events import ConversationEnd
from segue.core.usage import add_usages

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.task import compose_result, end_task
from .state import ConversationState, conversation_of


async def finish(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Say why the conversation ended, and what it used."""
    conversation, task_id, work = conversation_of(state), state["task_id"], node_context(runtime)
    ending = Ending(
        reason=EndReason(state["end_reason"]),
        turns=conversation.answered,
        usage=usage_by_role(conversation),
        seconds=round(work.services.clock() - state["started_at"], 3),
    )
    text = transcript(conversation)
    usage = add_usages(ending.usage.values())
    result = compose_result("conversation", text, history=list(_history(conversation)), usage=usage)
    result["conversation"] = {"end_reason": ending.reason.value, "turns": ending.turns, "usage": ending.usage}
    result["conversation"] |= {"seconds": ending.seconds, "state": state["kept"], "language": state["language"]}
    ended = ConversationEnd(
        task_id=task_id, reason=ending.reason.value, turns=ending.turns, usage=ending.usage, took=ending.seconds
    )
    return {
        "messages": [AIMessage(text)],
        "result": result,
        "language": "",  # the thread's next form may name another one
        "events": announce(ended, *end_task(state, result)),
    }


def usage_by_role(conversation: Conversation) -> dict[str, Any]:
    """The sums of {input, output, calls} and cost, by the role whose model was called."""
    return {role.value: total for role in Role if (total := add_usages(_usages(conversation, role)))}


def _usages(conversation: Conversation, role: Role) -> list[dict[str, Any]]:
    return [u.usage for u in conversation.utterances if u.role is role and u.usage]


def _history(conversation: Conversation) -> Iterable[dict[str, Any]]:
    for number, result in enumerate(conversation.results, 1):
        success = {"success": result.data} if result.ok else {"error": result.data}
        yield {
            "step": str(number),
            "phase": "execution",
            "action": result.action,
            "result": success,
            "description": result.controller,
        }
