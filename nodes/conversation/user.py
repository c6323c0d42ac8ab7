"""USER: the user says something, or ends the conversation."""

import asyncio
import time

from segue.core.conversation import EndReason, Role, Utterance
from segue.core.participants import output_of
from segue.prompts.language import language_of

from ..shared.context import NodeRuntime, node_context
from .roles import user_of
from .state import ConversationState, announced, conversation_of, with_participant_state


async def user(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Get the user's next message; a user whose attempts are all empty ends the conversation.

    Where the configuration has no language, the first message decides it.
    """
    started = time.monotonic()
    conversation, work = conversation_of(state), node_context(runtime)
    participant = await asyncio.to_thread(user_of, conversation, work)
    output = await output_of(participant, Role.USER, conversation.config.user_mode, conversation)
    failed = bool(output.error) and not output.text
    utterance = Utterance(
        index=len(conversation.utterances),
        turn=conversation.turn + 1,
        role=Role.USER,
        text=output.said,
        ends=output.ends,
        error=output.error,
        usage=output.usage,
        seconds=round(time.monotonic() - started, 3),
    )
    decides = not (conversation.turn or conversation.config.language) and bool(output.said)
    return {
        "language": language_of(output.said) if decides else state["language"],
        "utterances": [utterance.json()],
        "kept": with_participant_state(state, Role.USER, output.state),
        "end_reason": EndReason.USER_FAILED.value if failed else EndReason.USER_ENDED.value if output.ends else "",
        "events": announced(utterance, conversation, work),
    }
