"""API: the bot's call is carried out, unless a controller refuses it or it is not approved."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.core.context import Said
from segue.core.conversation import APIOutput, Conversation, Role, Utterance
from segue.core.errors import ConfigurationError
from segue.core.events import Durable
from segue.core.participants import RunsTools, output_of

from ..shared.call_runner import CallRunner, FinishedCall
from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from .participants.apis import refused
from .roles import agent_of, api_of, controllers_of
from .state import ConversationState, announced, conversation_of, with_participant_state

REFUSED = 409
"""The status code of a call that a controller refused."""
REJECTED = 403
"""The status code of a call that was not approved, or that its agent must not make."""
FAILED = 500
"""The status code of a call that failed."""
PERSON = "input_user"
"""The user that is a person."""
APPROVAL = "approval"
"""Takes the API's place in the transcript where a call was rejected."""


@dataclass(frozen=True)
class Answered:
    """What came of a call: its result, who took the API's place, and what was decided about it and its arguments."""

    output: APIOutput
    controller: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    events: Sequence[Durable] = ()


async def api(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Carry the pending call out; a refused one counts as a call and has the reason as its result.

    The graph comes back here while a call is decided about or waits for its result.
    """
    started = time.monotonic()
    conversation, work = conversation_of(state), node_context(runtime)
    call = conversation.pending
    if call is None:
        raise ConfigurationError("There is no call to run: API follows a call of the bot.")
    answered = await _answered(call, state["calls"], conversation, work)
    if not isinstance(answered, Answered):
        return answered
    utterance = Utterance(
        index=len(conversation.utterances),
        turn=conversation.turn,
        role=Role.API,
        action=call.action,
        call_id=call.call_id,
        status_code=answered.output.status_code,
        data=answered.output.data,
        controller=answered.controller,
        usage=answered.output.usage,
        seconds=round(time.monotonic() - started, 3),
        **{"action_input": call.action_input, **answered.changes},
    )
    return {
        "calls": [],
        "utterances": [utterance.json()],
        "kept": with_participant_state(state, Role.API, answered.output.state),
        "events": [*announce(*answered.events), *announced(utterance, conversation, work)],
    }


async def _answered(
    call: Utterance, pending: Sequence[PendingCall], conversation: Conversation, work: NodeContext
) -> Answered | ConversationState:
    """What came of the call; the state where that is not known yet."""
    if not pending:
        for name, rule in (await asyncio.to_thread(controllers_of, conversation, work)).items():
            if hint := rule.refusal(conversation):
                return Answered(APIOutput(status_code=REFUSED, data=hint), name)
    participant = await asyncio.to_thread(api_of, conversation, work)
    if not isinstance(participant, RunsTools):
        return Answered(await output_of(participant, Role.API, conversation.config.api_mode, conversation))
    simple = bool(conversation.config.apis)
    if misfit := refused(participant.specs, call, conversation.language, simple=simple):
        return Answered(misfit)
    runner = _runner(participant, conversation, work)
    calls, given, ready = await runner.prepare(pending or [_pending(call, conversation)])
    if not ready:
        return {"calls": calls, "events": announce(*given)}
    ran = await runner.run(calls)
    if waiting := runner.waiting(calls, ran):
        return {"calls": waiting}
    (done,) = ran
    controller = APPROVAL if done.result.status is CallStatus.REJECTED else ""
    changes = {"approval": _approval(done), "action_input": done.call["arguments"]}
    return Answered(_output(participant, done), controller, changes, runner.permissions(ran))


def _pending(call: Utterance, conversation: Conversation) -> PendingCall:
    scope = f"call-{call.index}"
    origin = f"{conversation.task_id}/{scope}/0"
    return {"index": 0, "name": call.action, "arguments": call.action_input, "scope": scope, "origin": origin}


def _runner(participant: RunsTools, conversation: Conversation, work: NodeContext) -> CallRunner:
    """What runs the bot's call by the rules of its agent, within `api_timeout`; what the user said is a person's."""
    config, said = conversation.config, work.services.said
    agent = agent_of(Role.BOT, config, work)
    budget = agent.budget.model_copy(update={"tool_seconds": config.api_timeout})

    async def known() -> Sequence[Said] | None:
        messages = await said()
        words = [Said(utterance.text) for utterance in conversation.utterances if utterance.role is Role.USER]
        return None if messages is None else [*messages, *words]

    return CallRunner(
        replace(work, agent=agent.model_copy(update={"budget": budget}), services=replace(work.services, said=known)),
        participant.tools,
        conversation.task_id,
        conversation.language,
        {"task_id": conversation.task_id},
        verdict="" if config.approvals == "ask" or config.user_mode == PERSON else config.approvals,
    )


def _output(participant: RunsTools, done: FinishedCall) -> APIOutput:
    """The result of a call as the bot may see it."""
    result = CallResult.of(done.seen) if done.seen else done.result
    if result.success:
        return participant.output(result.value)
    return APIOutput(status_code=FAILED if done.ran else REJECTED, data=result.error)


def _approval(done: FinishedCall) -> str:
    """What was decided about a call; empty where nothing had to be."""
    if "rejected" in done.call:
        return "reject"
    return "edit" if "original" in done.call else "approve" if done.permission or "approved" in done.call else ""
