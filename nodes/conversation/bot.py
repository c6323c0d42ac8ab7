"""BOT: the bot answers, or calls an API."""

import asyncio
import time
from dataclasses import replace

from segue.core.conversation import BotOutput, BotOutputType, Conversation, EndReason, Role, Utterance, without_end
from segue.core.participants import output_of
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext, NodeRuntime, node_context
from .roles import bot_of, controllers_of
from .state import ConversationState, announced, conversation_of, with_participant_state

ACTION_LIMIT = "bot_action_limit"


async def bot(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Let the bot act; once its calls of this turn are used up, the default response is sent in place of another."""
    started = time.monotonic()
    conversation, work = conversation_of(state), node_context(runtime)
    participant = await asyncio.to_thread(bot_of, conversation, work)
    output = await output_of(participant, Role.BOT, conversation.config.bot_mode, conversation)
    controller = ""
    if output.action_type == BotOutputType.ACTION and _used_up(conversation):
        controller = ACTION_LIMIT
        output = default_response(conversation, output, _said("call_limit", conversation, tool=output.action))
    elif output.action_type == BotOutputType.RESPONSE and not output.text.strip():
        output = default_response(conversation, output, output.error or _said("empty_response", conversation))
    utterance = Utterance(
        index=len(conversation.utterances),
        turn=conversation.turn,
        role=Role.BOT,
        text=without_end(output.text),
        thought=output.thought,
        action=output.action,
        action_input=output.action_input,
        call_id=output.call_id,
        controller=controller,
        error=output.error,
        usage=output.usage,
        seconds=round(time.monotonic() - started, 3),
    )
    after = replace(conversation, utterances=(*conversation.utterances, utterance))
    return {
        "utterances": [utterance.json()],
        "kept": with_participant_state(state, Role.BOT, output.state),
        "end_reason": "" if utterance.is_action else await _end(after, work),
        "events": announced(utterance, conversation, work),
    }


def _said(name: str, conversation: Conversation, **values: object) -> str:
    return phrase(name, conversation.language, **values)


def _used_up(conversation: Conversation) -> bool:
    return len(conversation.actions) >= conversation.config.bot_action_limit


def default_response(conversation: Conversation, output: BotOutput, why: str) -> BotOutput:
    """The response that is sent in place of an output that cannot be used."""
    text = conversation.config.default_response or _said("bot_default", conversation)
    return replace(
        output, action_type=BotOutputType.RESPONSE, text=text, action="", action_input={}, call_id="", error=why
    )


async def _end(conversation: Conversation, work: NodeContext) -> str:
    """Why the conversation ends after this response; empty if it continues."""
    for controller in (await asyncio.to_thread(controllers_of, conversation, work)).values():
        if reason := controller.end(conversation):
            return reason.value
    last = conversation.turn >= conversation.config.conversation_turn_limit
    return EndReason.TURN_LIMIT.value if last else ""
