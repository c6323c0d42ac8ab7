"""A conversation between a user, a bot and an API: its configuration, participants, utterances and end."""

import asyncio
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from inspect import isawaitable, iscoroutinefunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .agents import Agent, Items, load_attribute
from .bounds import LEAST_SEED, MOST_COUNT, MOST_SECONDS, MOST_SEED
from .errors import Clause, ConfigurationError, UnknownTool, UnknownWorkflow, listed
from .models import is_local
from .records import Json
from .task import ANYBODY, LanguageChoice

if TYPE_CHECKING:
    from .calls import Tool
    from .context import Services


MODE = "conversation"
"""The mode of a conversation's task."""
_BOT = ".bot"
USER_LIMIT, ACTION_LIMIT, RETRY_LIMIT = 20, 5, 3
END = "[END]"
"""Alone on a line, it ends the conversation."""
_END_LINE = re.compile(r"(?m)^[ \t]*\[END\][ \t]*$")


def bot_session(conversation_id: str) -> str:
    """The session of the agent that is a conversation's bot."""
    return f"{conversation_id}{_BOT}"


def without_end(text: str) -> str:
    """A text without the [END] that it may close with, where it must not end the conversation."""
    end, found = len(text.rstrip()), False
    while text.endswith(END, 0, end):
        end, found = end - len(END), True
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end] if found else text


class Role(StrEnum):
    """Who takes part in a conversation."""

    USER = "USER"
    BOT = "BOT"
    API = "API"


class BotOutputType(StrEnum):
    """What a bot may do: answer, or call an API."""

    RESPONSE = "RESPONSE"
    ACTION = "ACTION"


class EndReason(StrEnum):
    """Why a conversation ended."""

    USER_ENDED = "user_ended"
    """The user said [END]."""
    TURN_LIMIT = "turn_limit"
    """Every turn of `conversation_turn_limit` was answered."""
    SESSION_LENGTH = "session_length"
    """The transcript reached `session_length` characters."""
    USER_FAILED = "user_failed"
    """The simulated user wrote nothing in `retry_limit` attempts."""


class ConversationConfig(BaseModel):
    """Who takes part in a conversation, and within which limits.

    A mode is a registered name, `name:argument` or `module:attribute`. An empty agent or model is the default one;
    the simulated user never falls back to the bot's model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    conversation_turn_limit: int = Field(default=USER_LIMIT, ge=1, le=MOST_COUNT)
    """Turns of the user, each of which is answered."""
    user_mode: str = "dummy_user"
    """dummy_user, input_user, scripted_user, llm_profile, llm_oow, rule_user, or your own as module:attribute."""
    bot_mode: str = "dummy_bot"
    """dummy_bot, input_bot, react_bot, workflow_bot, rule_bot, main_bot, segue:MODE, or your own module:attribute."""
    bot_action_limit: int = Field(default=ACTION_LIMIT, ge=0, le=MOST_COUNT)
    """Calls that the bot may make in one turn."""
    api_mode: str = "dummy_api"
    """dummy_api, tools, llm, request, backend, or your own as module:attribute."""
    retry_limit: int = Field(default=RETRY_LIMIT, ge=1, le=MOST_COUNT)
    """Attempts of a model at one utterance that can be read."""

    user_agent: str = ""
    """The agent whose model and prompt the simulated user has."""
    user_model: str = ""
    """The model of the simulated user, such as openai:NAME."""
    bot_agent: str = ""
    """The agent that is the bot; empty: the run's."""
    bot_model: str = ""
    """A model in place of that of the bot's agent."""
    api_agent: str = ""
    """The agent whose model plays the API."""
    api_model: str = ""
    """The model that plays the API."""

    workflow: str = ""
    """The name of a shipped workflow, or a file."""
    workflows: Items[str] = ()
    """Further workflows: `main_bot` chooses among all of them, and hands over."""
    reference: str = ""
    """The log of a conversation whose turns this one is forced to; what the bot would do otherwise is kept."""
    scenario: str = ""
    """The name of one of the workflow's personas."""
    persona: str = ""
    """Who the simulated user is, as text."""
    goal: str = ""
    """What the simulated user wants, as text."""
    script: Items[str] = ()
    """What `scripted_user` says, turn by turn."""

    tools: Items[str] = ()
    """Tool sets, tools or `module:attribute` that the API offers; empty: those of the bot's agent."""
    apis: Items[dict[str, Any]] = ()
    """APIs of one's own: {name, description, parameters, url?, method?}."""
    allowed_hosts: Items[str] = ()
    """Hosts that the `request` API may call, as `host` or `host:port`."""
    api_timeout: float = Field(default=30.0, gt=0, le=MOST_SECONDS)
    """Seconds of one call."""

    approvals: Literal["approve", "reject", "ask"] = "ask"
    """What becomes of calls that need approval where the user is no person: `ask` waits for an answer, `approve` needs
    `auto_approve_conversations` in the agents file."""
    controllers: Items[str] = ()
    """The referee's optional controllers, by name."""
    api_duplication_limit: int = Field(default=2, ge=1, le=MOST_COUNT)
    """Equal calls that `api_duplication` allows."""
    session_length: int = Field(default=0, ge=0, le=MOST_COUNT)
    """Characters of the transcript after which `session_length` ends the conversation; 0: no limit."""
    default_response: str = ""
    """What the bot says once its calls of a turn are used up; empty: a sentence in the conversation's language."""
    out_of_workflow: float = Field(default=0.1, ge=0, le=1)
    """The probability of an utterance outside the workflow, for `llm_oow`."""
    seed: int | None = Field(default=None, ge=LEAST_SEED, le=MOST_SEED)
    """Makes what is random reproducible; models are sent it."""
    language: LanguageChoice = ""
    """That of all texts; empty: the agent's, else that of goal, persona and script, else of the first message."""
    options: dict[str, Any] = {}
    """For participants of one's own."""

    @field_validator("apis")
    @classmethod
    def _named(cls, apis: Items[dict[str, Any]]) -> Items[dict[str, Any]]:
        for api in apis:
            if not isinstance(api.get("name"), str) or not isinstance(api.get("parameters") or {}, dict):
                raise ValueError("an API needs a name, and its parameters are a JSON schema")
        return apis

    @property
    def has_agent(self) -> bool:
        """Whether the bot is an agent, with a session of its own."""
        return self.bot_mode.partition(":")[0] == "segue"

    def shown(self) -> dict[str, Any]:
        """The rows of a header: the documented five fields as `config`, and a row for each other field that is set."""
        documented = {name: getattr(self, name) for name in _DOCUMENTED}
        others = self.model_dump(mode="json", exclude_defaults=True, exclude=set(_DOCUMENTED))
        return {"config": documented, **others}


_DOCUMENTED = ("conversation_turn_limit", "user_mode", "bot_mode", "bot_action_limit", "api_mode")


def load_config(path: str | Path, **overrides: Any) -> ConversationConfig:
    """Read a configuration from a TOML or YAML file; overrides that are not None take precedence."""
    file = Path(path)
    try:
        table = _parsed(file)
    except (OSError, ValueError) as error:
        raise ConfigurationError("The configuration {file} cannot be read: {error}.", file=file, error=error) from error
    if not isinstance(table, dict):
        raise ConfigurationError("The configuration {file} is not a table of names and values.", file=file)
    given = {name: value for name, value in overrides.items() if value is not None}
    return config_of({**table, **given}, str(file))


def config_of(values: Mapping[str, Any], source: str = "") -> ConversationConfig:
    """A configuration from values by name; None means the default."""
    try:
        return ConversationConfig(**{name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        of = f" {source}" if source else ""
        if first["type"] == "extra_forbidden":
            known = [*ConversationConfig.model_fields]
            raise ConfigurationError(
                "The conversation's configuration{of} has no field '{field}'; use one of: {known}.",
                of=of,
                field=where,
                known=listed(get_close_matches(where, known, 1) or known),
            ) from error
        raise ConfigurationError(
            "The conversation's configuration{of}: {where}: {reason}.", of=of, where=where, reason=first["msg"]
        ) from error


def _parsed(file: Path) -> Any:
    text = file.read_text(encoding="utf-8-sig")
    if file.suffix.lower() == ".toml":
        return tomllib.loads(text)
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


@dataclass(frozen=True, kw_only=True)
class UserOutput:
    """What the user says; `[END]` alone on a line ends the conversation.

    `state` is what the participant wants to find again in `Conversation.state`; None leaves it as it is.
    """

    text: str
    state: Json | None = None
    usage: Json = field(default_factory=dict)
    error: str = ""
    """Why nothing could be said."""

    @property
    def ends(self) -> bool:
        """Whether the user ends the conversation."""
        return bool(_END_LINE.search(self.text))

    @property
    def said(self) -> str:
        """The text without the line that ends the conversation."""
        return _END_LINE.sub("", self.text).strip()


@dataclass(frozen=True, kw_only=True)
class BotOutput:
    """What the bot does: a response with its `text`, or an action with its input.

    `call_id` names the action for a bot that is given its result later.
    """

    action_type: BotOutputType
    text: str = ""
    thought: str = ""
    action: str = ""
    action_input: Json = field(default_factory=dict)
    call_id: str = ""
    state: Json | None = None
    usage: Json = field(default_factory=dict)
    error: str = ""
    """Why the bot's own reply could not be used."""


@dataclass(frozen=True, kw_only=True)
class APIOutput:
    """The result of a call: an HTTP status code and JSON data; `state` is the backend's state after the call."""

    status_code: int = 200
    data: Any = None
    state: Json | None = None
    usage: Json = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return 200 <= self.status_code < 300


@dataclass(frozen=True, kw_only=True)
class Utterance:
    """One line of the transcript.

    A BOT utterance with an `action` is a call; the API utterance that follows repeats it with its result. `turn` counts
    the user's utterances from 1. `controller` names the controller or limit that took the participant's place.
    `approval` is what was decided about a call that needs it: approve, edit or reject.
    """

    index: int
    turn: int
    role: Role
    text: str = ""
    thought: str = ""
    action: str = ""
    action_input: Json = field(default_factory=dict)
    call_id: str = ""
    status_code: int | None = None
    data: Any = None
    ends: bool = False
    controller: str = ""
    approval: str = ""
    error: str = ""
    usage: Json = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def is_action(self) -> bool:
        """Whether the bot calls an API here."""
        return self.role is Role.BOT and bool(self.action)

    @property
    def ok(self) -> bool:
        """Whether this is the result of a call that succeeded."""
        return self.role is Role.API and self.status_code is not None and 200 <= self.status_code < 300

    def json(self) -> Json:
        """The form of the state, the event and the log; fields that are empty are left out."""
        always = ("index", "turn", "role")
        form = {name: value for name, value in asdict(self).items() if name in always or value != _ABSENT[name]}
        return {**form, "role": self.role.value}

    @classmethod
    def of(cls, form: Mapping[str, Any]) -> Self:
        """The utterance that `json` wrote; fields of a later version are left out."""
        known = {f.name for f in fields(cls)}
        values = {name: value for name, value in form.items() if name in known}
        return cls(**{**values, "role": Role(form["role"])})


_ABSENT: Mapping[str, Any] = asdict(Utterance(index=0, turn=0, role=Role.USER))


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a conversation ended."""

    reason: EndReason
    turns: int
    usage: Json = field(default_factory=dict)
    """{input, output, calls} by role, as far as models counted them."""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """A conversation so far; participants are given one whenever it is their turn.

    `state` holds what participants keep, by role: that of API is the backend's.
    """

    conversation_id: str
    config: ConversationConfig
    utterances: tuple[Utterance, ...] = ()
    state: Mapping[str, Json] = field(default_factory=dict)
    ending: Ending | None = None
    language: str = "en"
    task_id: str = ""

    @property
    def turn(self) -> int:
        """The number of the user's utterances."""
        return sum(utterance.role is Role.USER for utterance in self.utterances)

    @property
    def answered(self) -> int:
        """The number of turns that the bot answered."""
        return sum(utterance.role is Role.BOT and not utterance.action for utterance in self.utterances)

    @property
    def pending(self) -> Utterance | None:
        """The bot's call that has no result yet."""
        last = self.utterances[-1] if self.utterances else None
        return last if last and last.is_action else None

    @property
    def actions(self) -> tuple[Utterance, ...]:
        """The bot's calls in this turn."""
        return tuple(u for u in self.utterances if u.is_action and u.turn == self.turn)

    @property
    def results(self) -> tuple[Utterance, ...]:
        """The results of all calls."""
        return tuple(u for u in self.utterances if u.role is Role.API)

    def state_of(self, role: Role) -> Json:
        """What the participant of that role kept."""
        return self.state.get(role.value, {})


PREFIXES = {Role.USER: "[USER]", Role.BOT: "[BOT]", Role.API: "[SYSTEM]"}


def transcript(conversation: Conversation) -> str:
    """One line per utterance; an end without words has none."""
    return "\n".join(map(line_of, shown(conversation)))


def line_of(utterance: Utterance) -> str:
    """The line of a transcript; empty where the utterance has no words."""
    text = spoken(utterance)
    return f"{PREFIXES[utterance.role]} {text}" if text else ""


def shown(conversation: Conversation) -> Iterator[Utterance]:
    """The utterances that a transcript shows."""
    return (u for u in conversation.utterances if spoken(u))


def spoken(utterance: Utterance) -> str:
    """The text of one utterance in a transcript: its words, its call or its result."""
    if utterance.role is Role.API:
        return as_text(utterance.data)
    if utterance.text or not utterance.action:
        return utterance.text
    return f"{utterance.action}({json.dumps(utterance.action_input, ensure_ascii=False)})"


def as_text(data: Any) -> str:
    """JSON data as text; a string is returned unchanged."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


# Participants of a conversation: their one protocol, what they are built from, and the registry of their names.

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
    user_id: str = ANYBODY
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
        """Refuse a workflow or a model that may not be named, and what is over a limit."""
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
        for workflow in filter(None, (config.workflow, *config.workflows)):
            if self.workflows is not None and workflow not in self.workflows:
                raise UnknownWorkflow(workflow, sorted(self.workflows))
        if config.reference and self.workflows is not None:
            raise ConfigurationError("A reference is a file of whoever runs the service: use segue simulate.")
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
        """Refuse a tool set that may not be named."""
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
"""What `segue.testing.rehearsal.register_*` adds to, for every app of the process."""


def factory_of(
    mode: str, *tables: Table[Made], restrictions: Restrictions = Restrictions()
) -> tuple[Factory[Made], str]:
    """The factory that a mode names, in the first table that has it, and the mode's argument.

    A mode may also be `module:attribute`, unless the restrictions forbid it.
    """
    name, _, argument = mode.partition(":")
    for table in tables:
        if factory := table.find(name):
            return factory, argument
    kind, known = Clause(tables[0].kind), listed(sorted({name for table in tables for name in table.names}))
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
    """The configuration with what its workflow says, wherever it says nothing itself."""
    for complete in COMPLETIONS:
        config = complete(config)
    return config


_OUTPUTS: Mapping[Role, type] = {Role.USER: UserOutput, Role.BOT: BotOutput, Role.API: APIOutput}


def build(mode: str, factory: Factory[Made], setting: Setting, conversation: Conversation) -> Made:
    """A participant by its factory."""
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
    """What a participant says or does; a plain function runs in a thread."""
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
    """Refuse an API whose `specs` are not functions in OpenAI's format."""
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
