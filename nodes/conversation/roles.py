"""Participants and controllers of a run, built from the names in its configuration."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from inspect import isawaitable
from typing import Any, TypeVar

from segue.core.agents import Agent
from segue.core.conversation import Conversation, ConversationConfig, EndReason, Role, transcript
from segue.core.participants import (
    API,
    Bot,
    Controller,
    Participant,
    Participants,
    Restrictions,
    Setting,
    Table,
    User,
    factory_of,
)
from segue.core.tools import Tool
from segue.prompts.catalogue import phrase
from segue.tools.builtin import BUILTIN as BUILTIN_TOOLS

from ..shared.context import NodeContext
from .participants.apis import HttpAPI, ToolsAPI
from .participants.react_bot import ReactBot
from .participants.scripted import DummyAPI, DummyBot, DummyUser, PersonBot, PersonUser, ScriptedUser
from .participants.simulated import OutOfWorkflowUser, SimulatedAPI, SimulatedUser

Output = TypeVar("Output")
AGENT_BOT = "segue"
"""The name of the bot that is an agent of Segue's; its argument is a mode."""
SIMULATED_USER = Agent(agent_id="simulated_user", description="The user of a rehearsal")
SIMULATED_API = Agent(agent_id="simulated_api", description="The API of a rehearsal")


class ApiDuplication:
    """Refuses a call that was made `api_duplication_limit` times before with the same arguments."""

    def __init__(self, setting: Setting) -> None:
        self._most = setting.config.api_duplication_limit
        self._language = setting.language

    def refusal(self, conversation: Conversation) -> str:
        call = conversation.pending
        assert call is not None
        requested = (call.action, call.action_input)
        made = sum((u.action, u.action_input) == requested for u in conversation.results)
        if made < self._most:
            return ""
        return phrase("api_duplication", self._language, tool=call.action, n=str(made))

    def end(self, conversation: Conversation) -> EndReason | None:
        return None


class SessionLength:
    """Ends a conversation whose transcript has `session_length` characters, after an answered turn."""

    def __init__(self, setting: Setting) -> None:
        self._most = setting.config.session_length

    def refusal(self, conversation: Conversation) -> str:
        return ""

    def end(self, conversation: Conversation) -> EndReason | None:
        reached = 0 < self._most <= len(transcript(conversation))
        return EndReason.SESSION_LENGTH if reached else None


BUILTIN = Participants()
BUILTIN.users.register("dummy_user", DummyUser)
BUILTIN.users.register("input_user", PersonUser)
BUILTIN.users.register("scripted_user", ScriptedUser)
BUILTIN.users.register("llm_profile", SimulatedUser)
BUILTIN.users.register("llm_oow", OutOfWorkflowUser)
BUILTIN.bots.register("dummy_bot", DummyBot)
BUILTIN.bots.register("input_bot", PersonBot)
BUILTIN.bots.register("react_bot", ReactBot)
BUILTIN.apis.register("dummy_api", DummyAPI)
BUILTIN.apis.register("tools", ToolsAPI)
BUILTIN.apis.register("llm", SimulatedAPI)
BUILTIN.apis.register("request", HttpAPI)
BUILTIN.controllers.register("api_duplication", ApiDuplication)
BUILTIN.controllers.register("session_length", SessionLength)


async def output_of(participant: Participant[Output], conversation: Conversation) -> Output:
    """What a participant says or does; its `process` may also be a plain function."""
    given: Any = participant.process(conversation)
    output: Output = await given if isawaitable(given) else given
    return output


def user_of(config: ConversationConfig, work: NodeContext, language: str) -> User:
    """The user.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    tables: tuple[Table[User], ...] = (work.services.participants.users, BUILTIN.users)
    factory, argument = factory_of(config.user_mode, *tables, restrictions=_restrictions(work))
    return factory(_setting(Role.USER, config, work, argument, language))


def bot_of(config: ConversationConfig, work: NodeContext, language: str) -> Bot:
    """The bot; it knows the functions that the API offers.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    tables: tuple[Table[Bot], ...] = (work.services.participants.bots, BUILTIN.bots)
    factory, argument = factory_of(config.bot_mode, *tables, restrictions=_restrictions(work))
    specs = api_of(config, work, language).specs
    return factory(_setting(Role.BOT, config, work, argument, language, specs))


def api_of(config: ConversationConfig, work: NodeContext, language: str) -> API:
    """The API.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    tables: tuple[Table[API], ...] = (work.services.participants.apis, BUILTIN.apis)
    factory, argument = factory_of(config.api_mode, *tables, restrictions=_restrictions(work))
    return factory(_setting(Role.API, config, work, argument, language))


def controllers_of(config: ConversationConfig, work: NodeContext, language: str) -> dict[str, Controller]:
    """The referee's controllers by name, in the order of the configuration.

    Raises:
        ConfigurationError.
    """
    tables: tuple[Table[Controller], ...] = (work.services.participants.controllers, BUILTIN.controllers)
    specs = api_of(config, work, language).specs if config.controllers else ()
    found = {}
    for name in config.controllers:
        factory, argument = factory_of(name, *tables, restrictions=_restrictions(work))
        found[name] = factory(_setting(Role.API, config, work, argument, language, specs))
    return found


def _restrictions(work: NodeContext) -> Restrictions:
    return work.services.participants.restrictions


def _setting(
    role: Role,
    config: ConversationConfig,
    work: NodeContext,
    argument: str,
    language: str,
    specs: Sequence[Mapping[str, Any]] = (),
) -> Setting:
    return Setting(
        role=role,
        config=config,
        services=work.services,
        agent=agent_of(role, config, work),
        user_id=work.context.user_id,
        model=_model_of(role, config, work),
        argument=argument,
        language=language,
        specs=specs,
        tools=_tools(config, work) if role is Role.API else {},
    )


def _tools(config: ConversationConfig, work: NodeContext) -> Mapping[str, Tool]:
    """The tools that are named, or else those of the bot's agent in its mode."""
    if config.tools:
        _restrictions(work).check_tools(config.tools)
        return _resolved(tuple(config.tools))
    bot, _, mode = config.bot_mode.partition(":")
    return work.services.agents.tools_in(agent_of(Role.BOT, config, work), mode if bot == AGENT_BOT else "")


@lru_cache(maxsize=16)
def _resolved(names: tuple[str, ...]) -> Mapping[str, Tool]:
    return BUILTIN_TOOLS.resolve(names)


def agent_of(role: Role, config: ConversationConfig, work: NodeContext) -> Agent:
    """The agent of a role; the bot's is the run's own where none is named, the others never share it unasked.

    Raises:
        UnknownAgent.
    """
    named = {Role.USER: config.user_agent, Role.BOT: config.bot_agent, Role.API: config.api_agent}[role]
    if named:
        return work.services.agent(named)
    return {Role.USER: SIMULATED_USER, Role.BOT: work.agent, Role.API: SIMULATED_API}[role]


def _model_of(role: Role, config: ConversationConfig, work: NodeContext) -> str:
    """The model that replaces the agent's own; only the bot inherits the run's."""
    named = {Role.USER: config.user_model, Role.BOT: config.bot_model, Role.API: config.api_model}[role]
    return named or (work.context.model if role is Role.BOT and not config.bot_agent else "")
