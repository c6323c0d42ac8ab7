"""Participants and controllers of a run, built from the names in its configuration."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from segue.core.actor import OPERATOR
from segue.core.agents import Agent
from segue.core.conversation import Conversation, ConversationConfig, EndReason, Role, transcript
from segue.core.errors import ConfigurationError
from segue.core.participants import (
    API,
    Bot,
    Controller,
    Participants,
    Restrictions,
    RunsTools,
    Setting,
    Table,
    User,
    build,
    check_specs,
    factory_of,
    specs_of,
)
from segue.core.tools import Tool
from segue.prompts.catalogue import phrase

from ..shared.context import NodeContext
from .participants.apis import HttpAPI, ToolsAPI, offered
from .participants.react_bot import ReactBot
from .participants.scripted import DummyAPI, DummyBot, DummyUser, PersonBot, PersonUser, ScriptedUser
from .participants.simulated import OutOfWorkflowUser, SimulatedAPI, SimulatedUser

Made = TypeVar("Made")
AGENT_BOT = "segue"
"""The name of the bot that is an agent of Segue's; its argument is a mode."""
PERSON = "input_user"
"""The user that is a person, who is asked about every call that needs approval."""
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


def _without_app(setting: Setting) -> Bot:
    raise ConfigurationError(
        "A Segue agent as the bot needs the app: use `segue simulate` or segue.rehearsal.converse, or here react_bot."
    )


BUILTIN = Participants()
BUILTIN.users.register("dummy_user", DummyUser)
BUILTIN.users.register("input_user", PersonUser)
BUILTIN.users.register("scripted_user", ScriptedUser)
BUILTIN.users.register("llm_profile", SimulatedUser)
BUILTIN.users.register("llm_oow", OutOfWorkflowUser)
BUILTIN.bots.register("dummy_bot", DummyBot)
BUILTIN.bots.register("input_bot", PersonBot)
BUILTIN.bots.register("react_bot", ReactBot)
BUILTIN.bots.register(AGENT_BOT, _without_app)
BUILTIN.apis.register("dummy_api", DummyAPI)
BUILTIN.apis.register("tools", ToolsAPI)
BUILTIN.apis.register("llm", SimulatedAPI)
BUILTIN.apis.register("request", HttpAPI)
BUILTIN.controllers.register("api_duplication", ApiDuplication)
BUILTIN.controllers.register("session_length", SessionLength)


def user_of(conversation: Conversation, work: NodeContext) -> User:
    """The user.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    tables: tuple[Table[User], ...] = (work.services.participants.users, BUILTIN.users)
    return _built(Role.USER, conversation.config.user_mode, tables, conversation, work)


def bot_of(conversation: Conversation, work: NodeContext) -> Bot:
    """The bot; it knows the functions that the API offers.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    tables: tuple[Table[Bot], ...] = (work.services.participants.bots, BUILTIN.bots)
    return _built(Role.BOT, conversation.config.bot_mode, tables, conversation, work, _offered(conversation, work))


def bot_setting(conversation: Conversation, work: NodeContext) -> Setting:
    """What the bot is built from.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    argument = conversation.config.bot_mode.partition(":")[2]
    return _setting(Role.BOT, conversation, work, argument, _offered(conversation, work))


def api_of(conversation: Conversation, work: NodeContext) -> API | RunsTools:
    """The API.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    tables: tuple[Table[API | RunsTools], ...] = (work.services.participants.apis, BUILTIN.apis)
    found = _built(Role.API, conversation.config.api_mode, tables, conversation, work)
    check_specs(conversation.config.api_mode, found)
    return found


def controllers_of(conversation: Conversation, work: NodeContext) -> dict[str, Controller]:
    """The referee's controllers by name, in the order of the configuration.

    Raises:
        ConfigurationError.
    """
    config = conversation.config
    tables: tuple[Table[Controller], ...] = (work.services.participants.controllers, BUILTIN.controllers)
    specs = _offered(conversation, work) if config.controllers else ()
    found = {}
    for name in config.controllers:
        factory, argument = factory_of(name, *tables, restrictions=_restrictions(work))
        found[name] = factory(_setting(Role.API, conversation, work, argument, specs))
    return found


def _offered(conversation: Conversation, work: NodeContext) -> Sequence[Mapping[str, Any]]:
    """The functions that a bot may call: those that the API lists, else those of the configuration or the tools."""
    listed = specs_of(api_of(conversation, work))
    return offered(_setting(Role.API, conversation, work, "", ())) if listed is None else listed


def _restrictions(work: NodeContext) -> Restrictions:
    return work.services.participants.restrictions


def check_participants(conversation: Conversation, work: NodeContext) -> None:
    """Build every participant and controller once, so that what is not there or does not fit is refused at once.

    Raises:
        ConfigurationError, UnknownAgent.
    """
    user_of(conversation, work)
    bot_of(conversation, work)
    controllers_of(conversation, work)
    config = conversation.config
    wanted = config.approvals == "approve" and config.user_mode != PERSON
    if wanted and not work.services.agents.auto_approves and isinstance(api_of(conversation, work), RunsTools):
        raise ConfigurationError(
            'approvals = "approve" would run the tools of the API {api} without asking: use "ask" or "reject", or a '
            "simulated API. To allow it, set auto_approve_conversations = true in the [approvals] table of the agents "
            "file.",
            api=config.api_mode,
        )


def permission_of(config: ConversationConfig, work: NodeContext) -> str:
    """The scope of the permission that calls run under without a question; empty where a person is asked."""
    approves = config.approvals == "approve" and config.user_mode != PERSON
    return OPERATOR if approves and work.services.agents.auto_approves else ""


def _built(
    role: Role,
    mode: str,
    tables: Sequence[Table[Made]],
    conversation: Conversation,
    work: NodeContext,
    specs: Sequence[Mapping[str, Any]] = (),
) -> Made:
    factory, argument = factory_of(mode, *tables, restrictions=_restrictions(work))
    return build(mode, factory, _setting(role, conversation, work, argument, specs), conversation)


def _setting(
    role: Role, conversation: Conversation, work: NodeContext, argument: str, specs: Sequence[Mapping[str, Any]]
) -> Setting:
    config = conversation.config
    _restrictions(work).check(config)
    return Setting(
        role=role,
        config=config,
        services=work.services,
        agent=agent_of(role, config, work),
        user_id=work.context.user_id,
        model=_model_of(role, config, work),
        argument=argument,
        language=conversation.language,
        specs=specs,
        tools=_tools(config, work) if role is Role.API else {},
    )


def _tools(config: ConversationConfig, work: NodeContext) -> Mapping[str, Tool]:
    """The tools that are named, or else those of the bot's agent in its mode."""
    bot, _, mode = config.bot_mode.partition(":")
    agents, about = work.services.agents, (agent_of(Role.BOT, config, work), mode if bot == AGENT_BOT else "")
    if not config.tools:
        return agents.tools_in(*about)
    _restrictions(work).check_tools(config.tools)
    return agents.tools_named(config.tools, *about)


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
