"""Participants of a conversation: their one protocol, what they are built from, and the registry of their names."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import isawaitable, iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from .agents import Agent, load_attribute
from .clause import Clause
from .conversation import APIOutput, BotOutput, Conversation, ConversationConfig, EndReason, Role, UserOutput
from .errors import ConfigurationError, UnknownTool, UnknownWorkflow, listed
from .models import is_local

if TYPE_CHECKING:
    from .context import Services
    from .tools import Tool

Output = TypeVar("Output", covariant=True)
Made = TypeVar("Made")


class Participant(Protocol[Output]):
    """A user, a bot or an API.

    It is built for every utterance: what it has to remember is in the conversation, or in its output's `state`.
    Its factory takes a `Setting`, the keywords `cfg` and `conv`, or nothing.
    """

    async def process(self, conversation: Conversation) -> Output:
        """Say or do what comes next.

        It may also be a plain function, which runs in a thread, without an argument or, of an API, with the two of the
        call: its name and its input.
        """
        ...


User = Participant[UserOutput]
Bot = Participant[BotOutput]


class API(Participant[APIOutput], Protocol):
    """Carries out the bot's pending call.

    `specs` are the functions that it offers, in OpenAI's format: {"type": "function", "function": {"name",
    "description", "parameters"}}. Without them bots call the `apis` of the configuration, or
    else the tools.
    """

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]: ...


class Controller(Protocol):
    """One of the referee's optional rules."""

    def refusal(self, conversation: Conversation) -> str:
        """Why the pending call is not carried out, as a hint for the bot; empty if it is."""
        ...

    def end(self, conversation: Conversation) -> EndReason | None:
        """Why the conversation ends after an answered turn; None if it continues."""
        ...


@runtime_checkable
class HasInitialState(Protocol):
    """An API with a state of its own, which the conversation keeps from its beginning."""

    def initial_state(self) -> dict[str, Any]: ...


@runtime_checkable
class RunsTools(Protocol):
    """An API that offers tools in place of a `process`: the graph runs their calls, as it does those of an agent."""

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]: ...

    @property
    def tools(self) -> "Mapping[str, Tool]": ...

    def output(self, value: Any) -> APIOutput:
        """The result of a call that returned this value."""
        ...


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a participant is built from.

    `argument` is the part of the mode after the colon. `agent` carries its model calls and tools, by its own model or
    the one named `model`. `specs` are the functions that the API offers, for a bot or a controller; `tools` are those
    of the configuration or of the bot's agent, for an API.
    """

    role: Role
    config: ConversationConfig
    services: "Services"
    agent: Agent
    user_id: str = "default"
    """The user of the conversation's task."""
    model: str = ""
    argument: str = ""
    language: str = "en"
    specs: Sequence[Mapping[str, Any]] = ()
    tools: "Mapping[str, Tool]" = field(default_factory=dict)


Factory = Callable[[Setting], Made]


class Table(Generic[Made]):
    """Factories by name, of one's own before those of the table beneath."""

    def __init__(self, kind: str, beneath: "Table[Made] | None" = None) -> None:
        self.kind = kind
        self._own: dict[str, Factory[Made]] = {}
        self._beneath = beneath

    def register(self, name: str, factory: Factory[Made]) -> None:
        """Add a factory, or replace the one of that name."""
        self._own[name] = factory

    @property
    def names(self) -> list[str]:
        """Every name there is."""
        return sorted({*self._own, *(self._beneath.names if self._beneath else ())})

    def find(self, name: str) -> Factory[Made] | None:
        """The factory of that name."""
        return self._own.get(name) or (self._beneath.find(name) if self._beneath else None)


@dataclass(frozen=True)
class Restrictions:
    """What a configuration that came from elsewhere may reach."""

    modules: frozenset[str] | None = None
    """The modules that it may name things of, as `module:attribute`; None: all."""
    tools: frozenset[str] | None = None
    """The tool sets that it may name; None: all."""
    hosts: frozenset[str] | None = None
    """The hosts that its `request` API may call, whatever its `allowed_hosts` say; None: those."""
    workflows: frozenset[str] | None = None
    """The workflows that it may name; None: all, files too."""
    local_models: bool = True
    """Whether it may name model files of this machine."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """The greatest values of its numbers, by the name of the field."""
    most_bytes: int | None = None
    """Bytes of the configuration as JSON."""

    def check(self, config: ConversationConfig) -> None:
        """Refuse a workflow or a model that may not be named, and what is over a limit.

        Raises:
            ConfigurationError: naming it.
        """
        for name, most in self.limits.items():
            if (value := getattr(config, name)) > most:
                raise ConfigurationError(
                    "{field} is {value}, and this service allows at most {most}.", field=name, value=value, most=most
                )
        if (
            self.most_bytes is not None
            and (size := len(config.model_dump_json(exclude_defaults=True).encode())) > self.most_bytes
        ):
            raise ConfigurationError(
                "The conversation's configuration has {size} bytes; the limit is {most}: shorten it.",
                size=size,
                most=self.most_bytes,
            )
        if config.workflow and self.workflows is not None and config.workflow not in self.workflows:
            raise UnknownWorkflow(config.workflow, sorted(self.workflows))
        for model in (config.user_model, config.bot_model, config.api_model):
            if is_local(model) and not self.local_models:
                raise ConfigurationError(
                    "This service does not load model files, so {model} cannot be used: name openai:<name> or offline.",
                    model=model,
                )

    def may_import(self, name: str) -> bool:
        """Whether it may name that `module:attribute`."""
        return self.modules is None or name.partition(":")[0] in self.modules

    def check_tools(self, names: Iterable[str]) -> None:
        """Refuse a tool set that may not be named.

        Raises:
            UnknownTool: listing those that may.
        """
        for name in names:
            if not self.may_import(name) if ":" in name else self.tools is not None and name not in self.tools:
                raise UnknownTool(name, sorted(self.tools or ()))


@dataclass(frozen=True)
class Participants:
    """The names that a configuration may use, and what else it may reach."""

    users: Table[User] = field(default_factory=lambda: Table("user"))
    bots: Table[Bot] = field(default_factory=lambda: Table("bot"))
    apis: "Table[API | RunsTools]" = field(default_factory=lambda: Table("API"))
    controllers: Table[Controller] = field(default_factory=lambda: Table("controller"))
    restrictions: Restrictions = Restrictions()

    def extended(self) -> "Participants":
        """A registry over this one: what is added to it stays in it."""
        return Participants(
            Table(self.users.kind, self.users),
            Table(self.bots.kind, self.bots),
            Table(self.apis.kind, self.apis),
            Table(self.controllers.kind, self.controllers),
            self.restrictions,
        )


REGISTERED = Participants()
"""What `segue.rehearsal.register_*` adds to, for every app of the process."""


def factory_of(
    mode: str, *tables: Table[Made], restrictions: Restrictions = Restrictions()
) -> tuple[Factory[Made], str]:
    """The factory that a mode names, in the first table that has it, and the mode's argument.

    A mode may also be `module:attribute`, unless the restrictions forbid it.

    Raises:
        ConfigurationError: listing the names there are.
    """
    name, _, argument = mode.partition(":")
    for table in tables:
        if factory := table.find(name):
            return factory, argument
    kind, known = Clause(tables[0].kind), listed(_names(tables))
    if not argument or name.startswith(".") or not restrictions.may_import(mode):
        raise ConfigurationError('There is no {kind} "{mode}"; use one of: {known}.', kind=kind, mode=mode, known=known)
    try:
        loaded: Factory[Made] = load_attribute(mode)
    except ConfigurationError as error:
        raise ConfigurationError(
            'There is no {kind} "{mode}": {reason}; use one of: {known}.',
            kind=kind,
            mode=mode,
            reason=error.__cause__,
            known=known,
        ) from error
    return loaded, ""


COMPLETIONS: list[Callable[[ConversationConfig], ConversationConfig]] = []
"""What fills in the fields that a configuration leaves open, in this order."""


def completed(config: ConversationConfig) -> ConversationConfig:
    """The configuration with what its workflow says, wherever it says nothing itself.

    Raises:
        ConfigurationError: it names what is not there.
    """
    for complete in COMPLETIONS:
        config = complete(config)
    return config


_OUTPUTS: Mapping[Role, type] = {Role.USER: UserOutput, Role.BOT: BotOutput, Role.API: APIOutput}


def build(mode: str, factory: Factory[Made], setting: Setting, conversation: Conversation) -> Made:
    """A participant by its factory.

    Raises:
        ConfigurationError: the factory takes other arguments, or what it gives has no `process` that can be called.
    """
    kinds = {"role": Clause(setting.role.value.lower()), "mode": mode}
    own: Mapping[str, Any] = {"cfg": setting.config, "conv": conversation}
    named = {name: value for name, value in own.items() if name in _parameters(factory)}
    choices: list[tuple[tuple[Any, ...], Mapping[str, Any]]] = [((setting,), {}), ((), {}), ((), own)]
    arguments = ((), named) if named else next((choice for choice in choices if _fits(factory, *choice)), None)
    if arguments is None or not _fits(factory, *arguments):
        raise ConfigurationError(
            'The {role} "{mode}" cannot be built: it should take a Setting, the keywords cfg and conv, or nothing.',
            **kinds,
        )
    made: Any = factory(*arguments[0], **arguments[1])
    process = getattr(made, "process", None)
    fits = callable(process) and _arguments_of(process, setting.role, conversation) is not None
    if not (fits or isinstance(made, RunsTools)):
        offers = "process(action, action_input)" if setting.role is Role.API else "process()"
        raise ConfigurationError(
            'The {role} "{mode}" cannot be used: it should have a method process(conversation) or {offers}.',
            offers=offers,
            **kinds,
        )
    built: Made = made
    return built


def _parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return signature(function).parameters
    except (TypeError, ValueError):  # a class in C has none
        return {}


def _fits(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bool:
    try:
        signature(function).bind(*arguments, **keywords)
    except (TypeError, ValueError):
        return False
    return True


def _arguments_of(process: Callable[..., Any], role: Role, conversation: Conversation) -> tuple[Any, ...] | None:
    """What `process` is called with; None if it takes something else."""
    call = conversation.pending
    choices: list[tuple[Any, ...]] = [(conversation,), ()]
    if role is Role.API:
        choices.insert(0, (call.action, dict(call.action_input)) if call else ("", {}))
    return next((arguments for arguments in choices if _fits(process, arguments, {})), None)


async def output_of(participant: Participant[Output], role: Role, mode: str, conversation: Conversation) -> Output:
    """What a participant says or does; a plain function runs in a thread.

    Raises:
        ConfigurationError: it gives something else than the role's output.
    """
    process: Callable[..., Any] = participant.process
    arguments = _arguments_of(process, role, conversation) or ()
    given = process(*arguments) if iscoroutinefunction(process) else await asyncio.to_thread(process, *arguments)
    output = await given if isawaitable(given) else given
    if not isinstance(output, _OUTPUTS[role]):
        raise ConfigurationError(
            'The {role} "{mode}" returned {kind}: its process should return a {expected}.',
            role=Clause(role.value.lower()),
            mode=mode,
            kind=type(output).__name__,
            expected=_OUTPUTS[role].__name__,
        )
    said: Any = output
    return said  # type: ignore[no-any-return]


def specs_of(api: API | RunsTools) -> Sequence[Mapping[str, Any]] | None:
    """The functions that an API lists; None where it has no `specs`."""
    return getattr(api, "specs", None)


def check_specs(mode: str, api: API | RunsTools) -> None:
    """Refuse an API whose `specs` are not functions in OpenAI's format.

    Raises:
        ConfigurationError.
    """
    specs: Any = specs_of(api)
    if specs is not None and not (isinstance(specs, list | tuple) and all(map(_is_spec, specs))):
        raise ConfigurationError(
            'The specs of the API "{mode}" should be a list of functions in OpenAI\'s format: '
            '{{"type": "function", "function": {{"name": "…", "description": "…", "parameters": {{…}}}}}}.',
            mode=mode,
        )


def _is_spec(spec: Any) -> bool:
    function = spec.get("function") if isinstance(spec, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("parameters", {}), Mapping):
        return False
    return isinstance(name := function.get("name"), str) and bool(name)


def _names(tables: Iterable[Table[Any]]) -> list[str]:
    return sorted({name for table in tables for name in table.names})
