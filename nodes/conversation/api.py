"""API: the bot's call is carried out, unless a controller refuses it."""

import time

from segue.core.conversation import APIOutput, Conversation, Role, Utterance
from segue.core.errors import ConfigurationError
from segue.core.events import Uttered

from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from .roles import api_of, controllers_of
from .state import ConversationState, conversation_of, keeping

REFUSED = 409
"""The status code of a call that a controller refused."""


async def api(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Carry the pending call out; a refused one counts as a call and has the controller's hint as its result."""
    started = time.monotonic()
    conversation = conversation_of(state)
    call = conversation.pending
    if call is None:
        raise ConfigurationError("There is no call to carry out: API follows a call of the bot.")
    output, controller = await _carried_out(conversation, node_context(runtime))
    utterance = Utterance(
        index=len(conversation.utterances),
        turn=conversation.turn,
        role=Role.API,
        action=call.action,
        action_input=call.action_input,
        call_id=call.call_id,
        status_code=output.status_code,
        data=output.data,
        controller=controller,
        usage=output.usage,
        seconds=round(time.monotonic() - started, 3),
    )
    return {
        "utterances": [utterance.json()],
        "kept": keeping(state, Role.API, output.state),
        "events": announce(Uttered(task_id=state["task_id"], utterance=utterance.json())),
    }


async def _carried_out(conversation: Conversation, work: NodeContext) -> tuple[APIOutput, str]:
    config, language = conversation.config, conversation.language
    for name, controller in controllers_of(config, work, language).items():
        if hint := controller.refusal(conversation):
            return APIOutput(status_code=REFUSED, data=hint), name
    return await api_of(config, work, language).process(conversation), ""
