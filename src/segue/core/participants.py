"""Participants of a conversation: their one protocol, what they are built from, and the registry of their names."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from .agents import Agent, load_attribute
from .clause import Clause
from .conversation import APIOutput, BotOutput, Conversation, ConversationConfig, EndReason, Role, UserOutput
from .errors import ConfigurationError, UnknownTool, listed

if TYPE_CHECKING:
    from .context import Services
    from .tools import Tool

Output = TypeVar("Output", covariant=True)
Made = TypeVar("Made")


class Participant(Protocol[Output]):
    """A user, a bot or an API.

    It is built anew for every utterance: what it has to remember is in the conversation, or in its output's `state`.
    """

    async def process(self, conversation: Conversation) -> Output:
        """Say or do what comes next."""
        ...


User = Participant[UserOutput]
Bot = Participant[BotOutput]


class API(Participant[APIOutput], Protocol):
    """Carries out the bot's pending call; `specs` are the functions that it offers, in OpenAI's format."""

    @property
    def specs(self) -> Sequence[Mapping[str, Any]]: ...


class Controller(Protocol):
    """One of the referee's optional rules."""

    def refusal(self, conversation: Conversation) -> str:
        """Why the pending call is not carried out, as a hint for the bot; empty if it is."""
        ...

    def end(self, conversation: Conversation) -> EndReason | None:
        """Why the conversation ends after an answered turn; None if it goes on."""
        ...


@runtime_checkable
class Begins(Protocol):
    """An API with a state of its own, which the conversation keeps from its beginning."""

    def initial_state(self) -> dict[str, Any]: ...


@runtime_checkable
class RunsTools(Protocol):
    """An API that runs tools, some of which may need approval."""

    @property
    def tools(self) -> "Mapping[str, Tool]": ...


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
    apis: Table[API] = field(default_factory=lambda: Table("API"))
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
    if argument and not name.startswith(".") and restrictions.may_import(mode):
        loaded: Factory[Made] = load_attribute(mode)
        return loaded, ""
    raise ConfigurationError(
        'There is no {kind} "{mode}"; there are: {known}.',
        kind=Clause(tables[0].kind),
        mode=mode,
        known=listed(_names(tables)),
    )


def _names(tables: Iterable[Table[Any]]) -> list[str]:
    return sorted({name for table in tables for name in table.names})
