"""API: the bot's call is carried out, unless a controller refuses it or it is not approved."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from segue.core.calls import CallResult, CallStatus, PendingCall
from segue.core.context import Said
from segue.core.conversation import APIOutput, Conversation, Role, Utterance
from segue.core.errors import ConfigurationError
from segue.core.events import Durable, ToolResult
from segue.core.participants import RunsTools, output_of

from ..shared.call_runner import CallRunner, FinishedCall
from ..shared.context import NodeContext, NodeRuntime, announce, node_context
from ..shared.hidden_results import as_seen, is_to_call
from ..shared.references import references
from .participants.apis import BAD_REQUEST, refused
from .roles import PERSON, agent_of, api_of, controllers_of, permission_of
from .state import ConversationState, announced, conversation_of, with_participant_state

REFUSED = 409
"""The status code of a call that a controller refused."""
REJECTED = 403
"""The status code of a call that was not approved, or that its agent must not make."""
FAILED = 500
"""The status code of a call that failed."""
APPROVAL = "approval"
"""Takes the API's place in the transcript where a call was rejected."""


@dataclass(frozen=True)
class Answered:
    """The result of a call, the controller that refused it, its arguments as they were decided, and the decision."""

    output: APIOutput
    controller: str = ""
    arguments: dict[str, Any] | None = None
    approval: str = ""
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
        action_input=call.action_input if answered.arguments is None else answered.arguments,
        approval=answered.approval,
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
    """The result of the call, or the update of the state while it is decided about or waits."""
    config, language = conversation.config, conversation.language
    if not pending:
        for name, rule in (await asyncio.to_thread(controllers_of, conversation, work)).items():
            if hint := rule.refusal(conversation):
                return Answered(APIOutput(status_code=REFUSED, data=hint), name)
    participant = await asyncio.to_thread(api_of, conversation, work)
    if not isinstance(participant, RunsTools):
        return Answered(await output_of(participant, Role.API, config.api_mode, conversation))
    given = any(map(is_to_call, references(call.action_input)))
    if not (pending or given) and (bad := refused(participant.specs, call, language, simple=bool(config.apis))):
        return Answered(bad)
    runner = _runner(participant, conversation, work)
    calls, decided, ready = await runner.prepare(pending or [_pending(call, conversation)])
    if not ready:
        return {"calls": calls, "events": announce(*decided)}
    ran = await runner.run(calls)
    if waiting := runner.waiting(calls, ran):
        return {"calls": waiting}
    (done,) = ran
    return Answered(
        _output(participant, done),
        APPROVAL if done.result.status is CallStatus.REJECTED else "",
        as_seen(done.call)["arguments"],
        _approval(done),
        [event for event in runner.events(ran) if not isinstance(event, ToolResult)],  # the utterance says that
    )


def _pending(call: Utterance, conversation: Conversation) -> PendingCall:
    scope = f"call-{call.index}"
    origin = f"{conversation.task_id}/{scope}/0"
    return {"index": 0, "name": call.action, "arguments": call.action_input, "scope": scope, "origin": origin}


def _runner(participant: RunsTools, conversation: Conversation, work: NodeContext) -> CallRunner:
    """The runner of the bot's calls: its agent's rules, within `api_timeout` seconds, with the user as the person."""
    config, said = conversation.config, work.services.said
    agent = agent_of(Role.BOT, config, work)
    budget = agent.budget.model_copy(update={"tool_seconds": config.api_timeout})

    async def all_said() -> Sequence[Said] | None:
        messages = await said()
        utterances = [Said(each.text) for each in conversation.utterances if each.role is Role.USER]
        return None if messages is None else [*messages, *utterances]

    return CallRunner(
        replace(
            work, agent=agent.model_copy(update={"budget": budget}), services=replace(work.services, said=all_said)
        ),
        participant.tools,
        conversation.task_id,
        conversation.language,
        {"task_id": conversation.task_id},
        permission=permission_of(config, work),
        rejects=config.approvals == "reject" and config.user_mode != PERSON,
        hides=not config.has_agent,  # it has a session of its own, which hides them
    )


def _output(participant: RunsTools, done: FinishedCall) -> APIOutput:
    """The result of a call as the bot may see it."""
    result = CallResult.of(done.seen) if done.seen else done.result
    if result.success:
        output = participant.output(result.value)
    else:
        status = BAD_REQUEST if "dangling" in done.call else FAILED if done.ran else REJECTED
        output = APIOutput(status_code=status, data=result.error)
    return replace(output, usage=done.summary.usage) if done.summary else output


def _approval(done: FinishedCall) -> str:
    """The decision about a call; empty where none was needed."""
    if "rejected" in done.call:
        return "reject"
    if "original" in done.call:
        return "edit"
    granted = done.permission not in ("", done.call.get("finding"))
    return "approve" if granted or "approved" in done.call else ""
