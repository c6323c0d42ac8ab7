"""A conversation between a user, a bot and an API: its configuration, its utterances, its end and its transcript."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from .agents import Items
from .bounds import LEAST_SEED, MOST_COUNT, MOST_SECONDS, MOST_SEED
from .errors import ConfigurationError, listed
from .records import Json

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
    """dummy_bot, input_bot, react_bot, workflow_bot, rule_bot, segue:MODE, or your own as module:attribute."""
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
    language: Literal["", "zh", "en"] = ""
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
        """The rows of a header: the documented five fields as one row; with any other field set, a row for each."""
        documented = {name: getattr(self, name) for name in _DOCUMENTED}
        others = self.model_dump(mode="json", exclude_defaults=True, exclude=set(_DOCUMENTED))
        return documented | others if others else {"config": documented}


_DOCUMENTED = ("conversation_turn_limit", "user_mode", "bot_mode", "bot_action_limit", "api_mode")


def load_config(path: str | Path, **overrides: Any) -> ConversationConfig:
    """Read a configuration from a TOML or YAML file; overrides that are not None take precedence.

    Raises:
        ConfigurationError: naming the file and what is wrong.
    """
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
    """A configuration from values by name; None means the default.

    Raises:
        ConfigurationError: naming the source, the field and what is wrong.
    """
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
    text = file.read_text(encoding="utf-8")
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
