"""API: the bot's call is carried out, unless a controller refuses it or it is not approved."""

import asyncio
import time
from dataclasses import replace
from typing import Any

from segue.core.approval import Verdict
from segue.core.conversation import APIOutput, Conversation, Role, Utterance
from segue.core.errors import ConfigurationError
from segue.core.participants import RunsTools, output_of
from segue.core.tools import Tool

from ..shared.approval import ask_person, question_of
from ..shared.call_runner import rejection
from ..shared.context import NodeContext, NodeRuntime, node_context
from .roles import api_of, controllers_of
from .state import ConversationState, announced, conversation_of, with_participant_state

REFUSED = 409
"""The status code of a call that a controller refused."""
REJECTED = 403
"""The status code of a call that was not approved."""
PERSON = "input_user"
"""The user that is a person."""
APPROVAL = "approval"
"""Takes the API's place in the transcript where a call was rejected."""


async def api(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Carry the pending call out; a refused one counts as a call and has the reason as its result."""
    started = time.monotonic()
    conversation, work = conversation_of(state), node_context(runtime)
    call = conversation.pending
    if call is None:
        raise ConfigurationError("There is no call to carry out: API follows a call of the bot.")
    call, output, controller = await _execute(conversation, call, work)
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
        approval=call.approval,
        usage=output.usage,
        seconds=round(time.monotonic() - started, 3),
    )
    return {
        "utterances": [utterance.json()],
        "kept": with_participant_state(state, Role.API, output.state),
        "events": announced(utterance, conversation, work),
    }


async def _execute(conversation: Conversation, call: Utterance, work: NodeContext) -> tuple[Utterance, APIOutput, str]:
    """The call as it was approved, its result, and who took the API's place."""
    for name, controller in (await asyncio.to_thread(controllers_of, conversation, work)).items():
        if hint := controller.refusal(conversation):
            return call, APIOutput(status_code=REFUSED, data=hint), name
    participant = await asyncio.to_thread(api_of, conversation, work)
    tool = participant.tools.get(call.action) if isinstance(participant, RunsTools) else None
    if tool is not None and tool.needs_approval:
        verdict = _verdict(conversation, call, tool)
        call = replace(call, approval=verdict.verdict, action_input=_chosen(verdict, call))
        if verdict.verdict == "reject":
            rejected = rejection(call.action, verdict.reason, conversation.language)
            return call, APIOutput(status_code=REJECTED, data=rejected.error), APPROVAL
        conversation = replace(conversation, utterances=(*conversation.utterances[:-1], call))
    return call, await output_of(participant, Role.API, conversation.config.api_mode, conversation), ""


def _chosen(verdict: Verdict, call: Utterance) -> dict[str, Any]:
    return call.action_input if verdict.arguments is None else verdict.arguments


def _verdict(conversation: Conversation, call: Utterance, tool: Tool) -> Verdict:
    """What the user decides about the call, if they are a person, or else the configuration."""
    config = conversation.config
    if config.approvals != "ask" and config.user_mode != PERSON:
        return Verdict(index=0, verdict=config.approvals)
    asked = question_of(0, call.action_input, tool)
    return ask_person([asked], {tool.name: tool}, conversation.language, ())[0]
