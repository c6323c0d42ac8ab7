"""API: the bot's call is carried out, unless a controller refuses it or it is not approved."""

import asyncio
import time
from dataclasses import replace

from segue.core.approval import Verdict
from segue.core.calls import PendingCall
from segue.core.conversation import APIOutput, Conversation, Role, Utterance
from segue.core.errors import ConfigurationError
from segue.core.events import CallPermitted, Durable
from segue.core.participants import RunsTools, output_of

from ..shared.approval import decided
from ..shared.call_runner import CallRunner, rejection
from ..shared.context import NodeContext, NodeRuntime, announce, node_context
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
        raise ConfigurationError("There is no call to run: API follows a call of the bot.")
    call, output, controller, given = await _execute(conversation, call, work)
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
        "events": [*announce(*given), *announced(utterance, conversation, work)],
    }


async def _execute(
    conversation: Conversation, call: Utterance, work: NodeContext
) -> tuple[Utterance, APIOutput, str, list[Durable]]:
    """The call as it was approved, its result, who took the API's place, and the events of the approval."""
    for name, controller in (await asyncio.to_thread(controllers_of, conversation, work)).items():
        if hint := controller.refusal(conversation):
            return call, APIOutput(status_code=REFUSED, data=hint), name, []
    participant = await asyncio.to_thread(api_of, conversation, work)
    given: list[Durable] = []
    if isinstance(participant, RunsTools):
        ids = {"task_id": conversation.task_id}
        runner = CallRunner(work, participant.tools, conversation.task_id, conversation.language, ids)
        decision, given = await _decide(runner, conversation, call)
        call = replace(call, approval=_verdict(decision), action_input=decision["arguments"])
        if "rejected" in decision:
            rejected = rejection(call.action, decision["rejected"], conversation.language)
            return call, APIOutput(status_code=REJECTED, data=rejected.error), APPROVAL, given
        conversation = replace(conversation, utterances=(*conversation.utterances[:-1], call))
    return call, await output_of(participant, Role.API, conversation.config.api_mode, conversation), "", given


async def _decide(runner: CallRunner, conversation: Conversation, call: Utterance) -> tuple[PendingCall, list[Durable]]:
    """The call with what the user decides about it, if they are a person, or else the configuration."""
    pending: PendingCall = {
        "index": 0,
        "name": call.action,
        "arguments": call.action_input,
        "scope": f"call-{call.index}",
    }
    config = conversation.config
    if not runner.undecided(pending):
        return pending, []
    if config.approvals != "ask" and config.user_mode != PERSON:
        verdict = Verdict(index=0, verdict=config.approvals)
        return decided(pending, verdict, conversation.task_id, runner.tools[call.action]), []
    if scope := await runner.permission(pending):
        allowed = decided(pending, Verdict(index=0, verdict="approve"), conversation.task_id, runner.tools[call.action])
        return allowed, [CallPermitted(index=0, name=call.action, scope=scope, task_id=conversation.task_id)]
    (answered,), given = await runner.decide([pending])
    return answered, given


def _verdict(call: PendingCall) -> str:
    """What was decided about the call; empty where nothing had to be."""
    if "rejected" in call:
        return "reject"
    return "edit" if "original" in call else "approve" if "approved" in call else ""
