"""INIT: a new conversation begins."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage

from segue.core.agents import Agent
from segue.core.conversation import Conversation, ConversationConfig, Role, config_of
from segue.core.errors import ConfigurationError
from segue.core.participants import HasInitialState, completed
from segue.prompts.language import language_of

from ..shared.channels import replaced
from ..shared.context import NodeRuntime, node_context
from ..shared.task import begin, objective_of
from .roles import agent_of, api_of, check_participants
from .state import ConversationState


async def init(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Read the configuration from the message, and have the API say what it begins with.

    Raises:
        ConfigurationError: the message is no configuration, or names what is not there.
    """
    config = read_config(objective_of(state["messages"]))
    return await _first_state(config, state["messages"], state.get("assignment"), runtime)


async def init_from_form(form: Mapping[str, Any], runtime: NodeRuntime) -> ConversationState:
    """The same with the configuration as the graph's input, whose channels are cleared for the thread's next one.

    Raises:
        ConfigurationError: a field has a wrong value, or names what is not there.
    """
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
    """The configuration that a message holds as JSON; any other text is the simulated user's goal.

    Raises:
        ConfigurationError: it has an unknown field or a wrong value.
    """
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
