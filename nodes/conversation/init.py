"""INIT: a new conversation begins."""

import json
from typing import Any, cast

from segue.core.conversation import ConversationConfig, Role, config_of
from segue.core.errors import ConfigurationError
from segue.core.participants import Begins
from segue.prompts.language import language_of

from ..shared.channels import replaced
from ..shared.context import NodeContext, NodeRuntime, node_context
from ..shared.task import begin
from .roles import api_of
from .state import ConversationState


async def init(state: ConversationState, runtime: NodeRuntime) -> ConversationState:
    """Read the configuration, and have the API say what it begins with.

    Raises:
        ConfigurationError: the message is no configuration, or names what is not there.
    """
    work = node_context(runtime)
    fresh = begin(state["messages"], state.get("assignment"), runtime)
    config = read_config(fresh["objective"])
    language = _language(config, work)
    api = api_of(config, work, language)
    return {
        **cast(ConversationState, fresh),
        "language": language,
        "config": config.model_dump(mode="json", exclude_defaults=True),
        "utterances": replaced([]),
        "kept": {Role.API.value: api.initial_state()} if isinstance(api, Begins) else {},
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


def _language(config: ConversationConfig, work: NodeContext) -> str:
    """The configured one, else that of the bot's agent, else that of what the configuration says in words."""
    words = " ".join([config.goal, config.persona, *config.script]).strip()
    of_words = language_of(words) if words else work.context.language or "en"
    return config.language or work.agent.language or of_words
