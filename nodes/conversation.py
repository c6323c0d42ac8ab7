"""The conversation graph: routes and nodes."""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from segue.core.agents import Agent
from segue.core.calls import Approved, CallResult, CallStatus, PendingCall, Rejected
from segue.core.context import PromptText
from segue.core.conversation import (
    APIOutput,
    BotOutput,
    BotOutputType,
    Conversation,
    ConversationConfig,
    Ending,
    EndReason,
    HasInitialState,
    Role,
    RunsTools,
    Utterance,
    completed,
    config_of,
    output_of,
    transcript,
    without_end,
)
from segue.core.errors import ConfigurationError
from segue.core.events import ConversationEnd, Durable, ToolResult
from segue.core.models import add_usages
from segue.prompts.catalogue import language_of, task_text

from .calls import CallRunner, FinishedCall, result_events
from .context import NodeContext, NodeRuntime, announce, node_context, references
from .participant_apis import BAD_REQUEST, refused
from .participants import (
    PERSON,
    ConversationState,
    agent_of,
    announced,
    api_of,
    bot_of,
    check_participants,
    controllers_of,
    conversation_of,
    permission_of,
    user_of,
    with_participant_state,
)
from .permission import as_seen, is_to_call
from .task import begin, compose_result, end_task, objective_of, replaced

# Routers of the conversation graph: the referee only routes.


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


# INIT: a new conversation begins.


async def init(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Read the configuration from the message, and have the API say what it begins with."""
    config = read_config(objective_of(state["messages"]))
    return await _first_state(config, state["messages"], state.get("assignment"), runtime)


async def init_from_form(form: Mapping[str, Any], runtime: NodeRuntime) -> ConversationState:
    """The same with the configuration as the graph's input, whose channels are cleared for the thread's next one."""
    given = {name: value for name, value in form.items() if value is not None}
    config = await asyncio.to_thread(completed, config_of(given))
    message = HumanMessage(config.model_dump_json(exclude_defaults=True))
    cleared = cast(ConversationState, dict.fromkeys(given))
    return {**cleared, **await _first_state(config, [message], None, runtime), "messages": [message]}


async def _first_state(
    config: ConversationConfig,
    messages: Sequence[AnyMessage],
    assignment: Mapping[str, Any] | None,
    runtime: NodeRuntime,
) -> ConversationState:
    work = node_context(runtime)
    fresh = begin(list(messages), assignment, runtime)
    config = with_language(config, agent_of(Role.BOT, config, work))
    language = config.language or work.context.language or "en"
    conversation = Conversation(conversation_id="", config=config, language=language, task_id=fresh["task_id"])
    await asyncio.to_thread(check_participants, conversation, work)
    api = await asyncio.to_thread(api_of, conversation, work)
    return {
        **cast(ConversationState, fresh),
        "language": language,
        "config": config.model_dump(mode="json", exclude_defaults=True),
        "calls": [],
        "utterances": replaced([]),
        "kept": {Role.API.value: api.initial_state()} if isinstance(api, HasInitialState) else {},
        "end_reason": "",
        "events": [],
    }


def read_config(message: str) -> ConversationConfig:
    """The configuration that a message holds as JSON; any other text is the simulated user's goal."""
    if not message.lstrip().startswith("{"):
        return ConversationConfig(goal=message)
    try:
        values: dict[str, Any] = json.loads(message)
    except ValueError as error:
        raise ConfigurationError("The conversation's configuration is not valid JSON: {error}.", error=error) from error
    return config_of(values)


def with_language(config: ConversationConfig, bot: Agent) -> ConversationConfig:
    """The configuration with the language that it names, else that of the bot's agent, else that of its own words.

    Where none of them decides, the user's first message will.
    """
    words = " ".join([config.goal, config.persona, *config.script]).strip()
    language = config.language or bot.language or (language_of(words) if words else "")
    return config.model_copy(update={"language": language}) if language else config


# USER: the user says something, or ends the conversation.


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


# BOT: the bot answers, or calls an API.

ACTION_LIMIT = "bot_action_limit"


async def bot(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Let the bot act; once its calls of this turn are used up, the default response is sent in place of another."""
    started = time.monotonic()
    conversation, work = conversation_of(state), node_context(runtime)
    participant = await asyncio.to_thread(bot_of, conversation, work)
    output = await output_of(participant, Role.BOT, conversation.config.bot_mode, conversation)
    controller = ""
    may_call = len(conversation.actions) < conversation.config.bot_action_limit
    if output.action_type == BotOutputType.ACTION and not may_call:
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
    return task_text(name, conversation.language, **values)


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


# API: the bot's call is carried out, unless a controller refuses it or it is not approved.

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
    call: Utterance, pending: Sequence[Mapping[str, Any]], conversation: Conversation, work: NodeContext
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
    proposed = [PendingCall.of(each) for each in pending] or [_pending(call, conversation)]
    calls, decided, ready = await runner.prepare(proposed)
    if not ready:
        return {"calls": [each.json() for each in calls], "events": announce(*decided)}
    ran = await runner.run(calls)
    if waiting := runner.waiting(calls, ran):
        return {"calls": [each.json() for each in waiting]}
    (done,) = ran
    return Answered(
        _output(participant, done),
        APPROVAL if done.result.status is CallStatus.REJECTED else "",
        as_seen(done.call).arguments,
        _approval(done),
        [event for event in result_events(ran, runner.work, runner.ids) if not isinstance(event, ToolResult)],
    )


def _pending(call: Utterance, conversation: Conversation) -> PendingCall:
    scope = f"call-{call.index}"
    origin = f"{conversation.task_id}/{scope}/0"
    return PendingCall(index=0, name=call.action, arguments=call.action_input, scope=scope, origin=origin)


def _runner(participant: RunsTools, conversation: Conversation, work: NodeContext) -> CallRunner:
    """The runner of the bot's calls: its agent's rules, within `api_timeout` seconds, with the user as the person."""
    config, said = conversation.config, work.services.said
    agent = agent_of(Role.BOT, config, work)
    budget = agent.budget.model_copy(update={"tool_seconds": config.api_timeout})

    async def all_said() -> Sequence[PromptText] | None:
        messages = await said()
        utterances = [PromptText(each.text) for each in conversation.utterances if each.role is Role.USER]
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
        status = BAD_REQUEST if done.call.dangling else FAILED if done.ran else REJECTED
        output = APIOutput(status_code=status, data=result.error)
    return replace(output, usage=done.usage) if done.usage else output


def _approval(done: FinishedCall) -> str:
    """The decision about a call; empty where none was needed."""
    decision = done.call.decision
    if isinstance(decision, Rejected):
        return "reject"
    if done.call.original is not None:
        return "edit"
    granted = done.permission not in ("", done.call.finding)
    return "approve" if granted or isinstance(decision, Approved) else ""


# FINISH: the conversation ended; its transcript is the answer.


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
