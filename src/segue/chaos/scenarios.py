"""Scenarios of rehearsals as sessions: the scripted user and bot talk once; their calls become a model's replies."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ..app import App
from ..core.agents import Agent
from ..core.conversation import Conversation, ConversationConfig, Role, Utterance
from ..core.errors import ConfigurationError, MissingExtra
from ..core.records import Json
from ..rehearsal.cassette import Cassette
from ..rehearsal.cassette.cassette import FunctionCall, ModelCall, Reply, ToolCall, Turn
from ..rehearsal.simulate import converse
from ..rehearsal.workflows import with_workflow
from ..rehearsal.workflows.loader import load_scenarios

MODE = "react"


async def record_scenarios(app: App, named: str, seed: int) -> dict[str, Cassette]:
    """The sessions of a workflow's scenarios by their names, such as travel_change:fee_declined, or of one of them.

    The workflow's backend answers the calls of this conversation; no tool runs.

    Raises:
        UnknownWorkflow, UnknownScenario, InvalidWorkflow.
        ConfigurationError: no agent has all the tools that the scenarios call.
    """
    workflow, _, scenario = named.partition(":")
    names = [scenario] if scenario else [found.name for found in load_scenarios(workflow)]
    held = {f"{workflow}:{name}": await _held(app, workflow, name, seed) for name in names}
    agent = _agent_for(app, workflow, held.values())
    return {name: cassette_of(conversation, agent) for name, conversation in held.items()}


async def _held(app: App, workflow: str, scenario: str, seed: int) -> Conversation:
    config = with_workflow(ConversationConfig(workflow=workflow, scenario=scenario, seed=seed))
    return await converse(app, config, conversation_id=f"{Path(workflow).stem}.{scenario}")


def _agent_for(app: App, workflow: str, conversations: Iterable[Conversation]) -> Agent:
    """The first agent that has every tool that is called."""
    called = {said.action: None for held in conversations for said in held.utterances if said.is_action}
    missing = [*called]
    for agent in map(app.agents.agent, app.agents):
        try:
            lacks = [name for name in called if name not in app.agents.tools_for(agent)]
        except MissingExtra:
            continue
        if not lacks:
            return agent
        missing = min(missing, lacks, key=len)
    raise ConfigurationError(
        "No agent has the tools that the workflow {workflow} calls; missing: {names}. Name an agents file "
        "that has them with --agents.",
        workflow=workflow,
        names=", ".join(missing),
    )


def cassette_of(conversation: Conversation, agent: Agent) -> Cassette:
    """The conversation as if the agent's model had decided what the bot did."""
    turns: dict[int, list[Utterance]] = {}
    for utterance in conversation.utterances:
        turns.setdefault(utterance.turn, []).append(utterance)
    answered = [said for _, said in sorted(turns.items()) if any(_is_answer(one) for one in said)]
    return Cassette(
        session=conversation.conversation_id,
        turns=tuple(_turn(said, agent, conversation.language) for said in answered),
        messages=(),
    )


def _is_answer(utterance: Utterance) -> bool:
    return utterance.role is Role.BOT and not utterance.is_action


def _turn(said: Sequence[Utterance], agent: Agent, language: str) -> Turn:
    message = next(one.text for one in said if one.role is Role.USER)
    replies = [*_replies(said, _REPLIES[agent.protocol])]
    calls = [one for one in said if one.is_action]
    return Turn(
        message=message,
        task_id="",
        agent=agent.agent_id,
        mode=MODE,
        language="zh" if language == "zh" else "en",
        created_at=0.0,
        model_calls=tuple(_model_call(reply) for reply in replies),
        tool_calls=tuple(ToolCall(name=one.action, arguments=one.action_input, at=0.0) for one in calls),
        status="done",
    )


def _replies(said: Sequence[Utterance], reply: Callable[[Utterance], Reply]) -> Iterator[Reply]:
    """The bot's calls, and its answer."""
    yield from (reply(one) for one in said if one.is_action)
    yield reply(next(one for one in reversed(said) if _is_answer(one)))


def _model_call(reply: Reply) -> ModelCall:
    return ModelCall(purpose="decide", model="script", at=0.0, digest="", reply=reply)


def _native(said: Utterance) -> Reply:
    if not said.is_action:
        return Reply(text=said.text, finish_reason="stop")
    arguments = json.dumps(said.action_input, ensure_ascii=False)
    call = FunctionCall(id=f"call_{said.index}", name=said.action, arguments=arguments)
    return Reply(tool_calls=(call,), finish_reason="tool_calls")


def _json(said: Utterance) -> Reply:
    call = {"name": said.action, "arguments": said.action_input}
    output: Json = {"tool_calls": [call]} if said.is_action else {"answer": said.text}
    result = {"action_type": "CALL_TOOL" if said.is_action else "ANSWER", "output": output}
    form = {"observe": "", "thought": "", "action": {"result": result}}
    return Reply(text=json.dumps(form, ensure_ascii=False), finish_reason="stop")


_REPLIES: dict[str, Callable[[Utterance], Reply]] = {"native": _native, "json": _json}
