"""Agents: a model, tools, a prompt and limits; the built-in modes; the agents file."""

import importlib
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar, get_args

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .bounds import LEAST_SEED, MOST_COUNT, MOST_SECONDS, MOST_SEED
from .call_rules import AllowRule
from .errors import ConfigurationError, SegueError, UnknownField
from .provenance import Hiding, Policy
from .task import Language
from .variables import Unset, resolve


class ChatMode(StrEnum):
    """How a message is worked on; each is accepted wherever a mode's name is."""

    DIRECT = "direct"
    """One answer without tools."""
    REACT = "react"
    """Round by round, with tools."""
    PLAN = "plan"
    """A plan first, then its steps."""
    PLAN_REACT = "plan_react"
    """A plan whose steps are executed round by round."""
    LIFECYCLE = "lifecycle"
    """A goal split into subtasks that run separately."""
    CONTROLLER = "controller"
    """A plan that a controller executes branch by branch, with memory files."""
    AUTO = "auto"
    """The one of the above that suits the message."""


T = TypeVar("T")


def _as_tuple(items: Sequence[T]) -> tuple[T, ...]:
    if isinstance(items, str):
        raise ValueError(f'give a list: ["{items}"]')
    return tuple(items)


Items = Annotated[Sequence[T], AfterValidator(_as_tuple)]
"""A list or tuple, kept as a tuple."""


class Budget(BaseModel):
    """Limits of a task."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tool_calls: int = Field(default=100, ge=0, le=MOST_COUNT)
    """Tool calls per task."""
    subtasks: int = Field(default=20, ge=0, le=100)
    """Subtasks that may be added to a lifecycle run while it is under way."""
    parallel_calls: int = Field(default=4, ge=1, le=MOST_COUNT)
    """Read-only calls that run at once; the others of their batch or wave follow, in order."""
    seconds: float = Field(default=1800, gt=0, le=MOST_SECONDS)
    """Wall-clock time of a task."""
    prompt_tokens: int = Field(default=24_000, ge=500, le=MOST_COUNT)
    """Tokens of one model call's prompt."""
    tool_seconds: float = Field(default=30, gt=0, le=MOST_SECONDS)
    """Wall-clock time of one tool call, where the tool sets none."""
    message_bytes: int = Field(default=32 * 1024, gt=0, le=MOST_COUNT)
    """UTF-8 bytes of a message."""
    reply_chars: int = Field(default=32_000, ge=100, le=MOST_COUNT)
    """Characters of one reply of the model, including the arguments of its calls; a longer one is truncated."""
    reasoning_chars: int = Field(default=128_000, ge=100, le=MOST_COUNT)
    """Characters of reasoning in one reply; with more, it is truncated."""
    result_chars: int = Field(default=4_000, ge=100, le=MOST_COUNT)
    """Characters of one tool result in a prompt."""
    file_tokens: int = Field(default=12_000, ge=0, le=MOST_COUNT)
    """Tokens of the files in a prompt, the newest first; what does not fit is truncated, or only named."""


class Prices(BaseModel):
    """What tokens cost, per million, in one currency."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    input: float = Field(ge=0, le=1e9)
    """Price per million prompt tokens."""
    output: float = Field(ge=0, le=1e9)
    """Price per million reply tokens."""
    currency: str = "USD"
    """The currency of prices and costs."""

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (self.input * input_tokens + self.output * output_tokens) / 1_000_000


class OAuth(BaseModel):
    """How Segue is known to the authorization server of an MCP server; by default it registers itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    client_id: str = ""
    """The client that was registered for it."""
    client_secret: SecretStr | None = None
    """The client's secret, if it has one."""
    client_metadata_url: str = Field(default="", pattern=r"^(https://[^/]+/.+)?$")
    """The client's metadata document, for authorization servers that take its address as the client's id."""
    redirect_port: int = Field(default=0, ge=0, le=65535)
    """The port of the redirect address `http://127.0.0.1:PORT/callback`; 0 is a free one."""
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    """A person logs in, or the client's secret is enough."""
    issuer: str = ""
    """The authorization server that may receive the secret; needed for client_credentials."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.client_secret and not self.client_id:
            raise ValueError("client_secret goes with a client_id")
        if self.grant == "client_credentials" and not (self.client_secret and self.issuer):
            raise ValueError("client_credentials needs a client_id, a client_secret and an issuer")
        return self


class McpServer(BaseModel):
    """An MCP server whose tools an agent has: a command that communicates over stdin and stdout, or a URL."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=r"^[\w.-]+$", max_length=64)
    """Its name in errors and `segue doctor`."""
    command: str = ""
    """The program to start; it communicates over stdin and stdout."""
    args: Items[str] = ()
    """The program's arguments."""
    env: dict[str, SecretStr] = {}
    """Variables set for the command, beside HOME, LOGNAME, PATH, SHELL, TERM and USER; others are not passed on."""
    url: str = Field(default="", pattern=r"^(https?://.+)?$")
    """The server's address, instead of a command."""
    headers: dict[str, SecretStr] = {}
    """Sent with each request to the url."""
    oauth: OAuth = OAuth()
    """For a url that requires a login: see `segue mcp login`."""
    timeout: float | None = Field(default=None, gt=0, le=MOST_SECONDS)
    """Seconds of one call, instead of the agent's `tool_seconds`; and of connecting, instead of 30."""
    tools: Items[str] | None = None
    """The tools to use; by default all."""
    read_only: Items[str] = ()
    """Tools that change nothing, in addition to those marked by the server."""
    needs_approval: Items[str] = ()
    """Tools that need approval."""
    trusted: Items[str] = ()
    """Tools whose results and descriptions are trusted; those of the others are untrusted."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("give the MCP server either a command or a url")
        if self.command and (self.headers or self.oauth != OAuth()):
            raise ValueError("headers and oauth go with a url")
        if self.url and (self.args or self.env):
            raise ValueError("args and env go with a command")
        return self


class RemoteAgent(BaseModel):
    """An agent elsewhere, over A2A, that an agent has as a tool."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=r"^[\w-]+$", max_length=64)
    """The tool's name."""
    url: str = Field(pattern=r"^https?://.+$")
    """Its address; its card is at `.well-known/agent-card.json` below it."""
    headers: dict[str, SecretStr] = {}
    """Sent with each request, such as a key."""
    description: str = ""
    """Its description for the model, instead of the card's description and skills."""
    timeout: float | None = Field(default=None, gt=0, le=MOST_SECONDS)
    """Seconds of one call, instead of the agent's `tool_seconds`; and of one request, instead of 60."""
    read_only: bool = False
    """It changes nothing, so calls may run in parallel."""
    needs_approval: bool = False
    """Its calls need approval."""


_AGENT = "agent:"
"""What the name of an agent in `tools` begins with."""


class AgentTool(BaseModel):
    """An agent of the same app that another one has as a tool: `"agent:billing"` among its `tools`, or a table."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    agent: str = Field(pattern=r"^[\w.-]+$", max_length=64)
    """The id of the agent."""
    background: bool = False
    """A call returns at once, and the result arrives later in the same task, in modes that work round by round."""
    needs_approval: bool = False
    """Its calls need approval."""

    @property
    def name(self) -> str:
        """The tool's name: the agent's id, without what names of tools cannot have."""
        return self.agent.replace(".", "_")


def _agents_among(tools: Sequence[Any]) -> Sequence[Any]:
    """Tools, each that is an agent as an `AgentTool`."""
    return tuple(map(_agent_or_tool, tools))


def _agent_or_tool(item: Any) -> Any:
    if isinstance(item, str) and item.startswith(_AGENT):
        return AgentTool(agent=item.removeprefix(_AGENT))
    try:
        return AgentTool(**item) if isinstance(item, dict) else item
    except (ValidationError, TypeError) as error:
        field, reason = first_fault(error) if isinstance(error, ValidationError) else ("", str(error))
        example = '{agent = "billing", background = true}'
        raise ValueError(f"{field}{reason}; a tool that is an agent is such as {example}") from None


HabitName = Literal[
    "alternate_roles",
    "content_or_calls",
    "developer_role",
    "empty_content",
    "filled_content",
    "json_object",
    "max_completion_tokens",
    "max_tokens",
    "no_reasoning",
    "no_response_format",
    "no_stream_options",
    "no_system_role",
    "object_results",
    "one_system",
    "plain_ids",
    "plain_names",
    "reasoning_content",
    "short_ids",
    "simple_schemas",
    "system_first",
    "thought_signatures",
    "tool_names",
    "user_last",
]
"""What an endpoint may require of a request; the table is in `models/habits.py`."""
HABITS: tuple[str, ...] = get_args(HabitName)

Suggestions = Annotated[Items[Annotated[str, Field(min_length=1, max_length=300)]], Field(max_length=6)]

SAME_VERSION: Final = "the same version"
"""Marks the fields of an agent that its tasks do not depend on, or that may differ between machines."""


class Agent(BaseModel):
    """A definition: who answers, with what, within which bounds."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True)

    agent_id: Annotated[str, SAME_VERSION] = Field(pattern=r"^[\w.-]+$", max_length=64)
    """Its name in commands, requests and lists."""
    version: Annotated[str, SAME_VERSION] = Field(default="", pattern=r"^[\w.+-]*$", max_length=64)
    """Its version, recorded with each task; by default a digest of its prompt, model, tools, mode and options, without
    its limits."""
    on_upgrade: Annotated[Literal["continue", "pin", "ask"], SAME_VERSION] = "continue"
    """Unfinished tasks of a version that is not available continue with this one, wait until their version is available
    (`pin`), or a person is asked."""
    older: Annotated["Items[Agent]", SAME_VERSION] = ()
    """Older versions, for unfinished tasks that began with them."""
    description: Annotated[str, SAME_VERSION] = ""
    """What it is for, shown in lists and to other agents' controllers."""
    suggestions: Annotated[Suggestions | dict[Language, Suggestions], SAME_VERSION] = ()
    """Example messages on the page: a list, or one per language. By default derived from its tools."""
    model: Any = None
    """`openai:<name>`, `local:<path.gguf>`, `offline`, or a LangChain chat model; None: the environment decides."""
    base_url: Annotated[str | None, SAME_VERSION] = None
    """The address of its endpoint; by default OPENAI_BASE_URL, else OpenAI's."""
    api_key: Annotated[SecretStr | None, SAME_VERSION] = None
    """The API key of its endpoint; by default OPENAI_API_KEY."""
    temperature: float | None = None
    """Sent with each request, if set."""
    seed: int | None = Field(default=None, ge=LEAST_SEED, le=MOST_SEED)
    """Sent with each request, if set."""
    max_tokens: int | None = Field(default=None, ge=1, le=MOST_COUNT)
    """Maximum tokens of one reply; sent to OpenAI's own endpoint as `max_completion_tokens`."""
    reasoning_effort: str | None = None
    """How long a reasoning model thinks: a value of the endpoint, such as `low` or `high`."""
    extra_body: dict[str, Any] = {}
    """Additional fields of each request's body."""
    habits: Annotated[Items[str] | None, SAME_VERSION] = None
    """What its endpoint requires, such as `["system_first"]`, in place of what is learned from its refusals."""
    streaming: bool = True
    """Request streaming; turn it off for endpoints that cannot stream."""
    read_timeout: float = Field(
        default=60, gt=0, le=MOST_SECONDS, validation_alias=AliasChoices("read_timeout", "silence")
    )
    """Seconds that the endpoint may take for the first piece of its reply, and from one to the next.

    Its former name, `silence`, is accepted as well.
    """
    accepts: Items[Literal["image", "pdf"]] | None = None
    """Files that the model accepts beside text; by default SEGUE_ACCEPTS, or what is known of the model."""
    tools: Annotated[Items[Any], AfterValidator(_agents_among)] = ()
    """LangChain tools, plain typed functions, names of tool sets, `module:attribute`, or other agents: `agent:billing`,
    or `{agent = "billing", background = true}`."""
    mcp: Items[McpServer] = ()
    """MCP servers whose tools it can use; the app connects before the agent first runs."""
    a2a: Items[RemoteAgent] = ()
    """Remote agents that it can use as tools; their cards are read before the agent first runs."""
    approve: Policy | dict[str, Policy] | None = None
    """When calls need approval: one policy for its tools that are not read-only and have none, or policies by tool."""
    approvers: dict[str, Items[str]] = {}
    """The roles that may approve a tool's calls, by tool name."""
    approvals: dict[str, int] = {}
    """How many different people must approve a tool's calls, by tool name."""
    not_by_asker: Items[str] = ()
    """Tools whose calls cannot be approved by the person who asked for the task."""
    trusted: Items[str] = ()
    """Tools whose results are trusted, in addition to those marked `trusted`."""
    trusted_fields: dict[str, Items[str]] = {}
    """Fields of a tool's results that nobody else writes, such as an id or the time of arrival, by tool name."""
    directories: Items[str] = ()
    """Tools without arguments, such as an address book, that Segue reads before it asks a person about a value."""
    allow: Items[AllowRule] = ()
    """Where untrusted text may go without a question: values of arguments, hosts, folders."""
    secret: Items[str] = ()
    """Tools whose results are secret, in addition to those marked `secret`."""
    hidden: Items[str] | dict[str, Hiding] = ()
    """Tools whose results the model sees only as a reference; by name, `true`, or `"summary"` for a summary, too."""
    on_secret: Literal["ask", "refuse"] = "ask"
    """A call with a value of another tool's secret result needs approval, or is refused."""
    prompt: str = ""
    """The system prompt. It may contain `{{current_state}}` and `{{tools}}`; a missing state slot is appended."""
    arguments: dict[str, Any] | None = None
    """JSON schema of the arguments that MCP clients pass instead of a message."""
    mcp_tasks: Annotated[Literal["optional", "required"], SAME_VERSION] = "optional"
    """Whether MCP clients need the extension for tasks: with `required`, each call is answered with a task at once."""
    response_model: Annotated[Any, SAME_VERSION] = None
    """What its answer is where it is a tool of another agent: a pydantic model, `module:Model`, or a JSON schema."""
    protocol: Literal["json", "native"] = "json"
    """`json`: one JSON object per reply, for any endpoint; `native`: the endpoint's own tool calls."""
    mode: str = "auto"
    """The default mode of messages."""
    auto: Annotated[Literal["rules", "model"] | None, SAME_VERSION] = None
    """How `auto` picks a mode; `model` asks the model about all but a greeting; by default SEGUE_AUTO, or `rules`."""
    ask_user: bool = True
    """Whether it may ask the user a question in the middle of a task, in react, plan and plan_react."""
    review_plan: bool | Items[str] = False
    """Whether a person reviews its plans before they run: `true`, or a list of modes such as `["plan"]`."""
    remember: Annotated[Literal["rules", "model", "off"], SAME_VERSION] = "rules"
    """How it finds what users say of themselves, for later sessions: by rules, or with a model call after the task."""
    digest: Annotated[Literal["rules", "model"], SAME_VERSION] = "rules"
    """What stands for messages that prompts leave out: entries by rules, or with prose of the model between them."""
    language: Language | None = None
    """The language of its prompts and answers; by default the user's."""
    max_iteration: Annotated[int, SAME_VERSION] = Field(default=30, ge=1, le=MOST_COUNT)
    """Rounds of a task."""
    budget: Annotated[Budget, SAME_VERSION] = Budget()
    """Limits of its tasks."""
    prices: Annotated[Prices | None, SAME_VERSION] = None
    """Prices per million tokens; by default those known for the model."""
    system_first: bool = False
    """Short for `habits = ["system_first", "user_last"]`: the system message first and a user message last."""
    state: Literal["inline", "last"] | None = None
    """Where the json protocol puts the current state: `inline`, in the system prompt, or `last`, in a closing message.

    With `last` the system prompt comes first and stays the same, so that an endpoint can cache it. None: `last` for a
    model that runs in this process, else `inline`.
    """

    @property
    def public_description(self) -> str:
        """Its description for clients of protocols and for other agents; they need one."""
        return self.description or f"The agent {self.agent_id}."

    @property
    def agent_tools(self) -> tuple[AgentTool, ...]:
        """Those of its tools that are agents of the same app."""
        return tuple(tool for tool in self.tools if isinstance(tool, AgentTool))

    @property
    def own_tools(self) -> tuple[Any, ...]:
        """Its tools without those that are agents."""
        return tuple(tool for tool in self.tools if not isinstance(tool, AgentTool))

    @property
    def background_tools(self) -> tuple[str, ...]:
        """The names of its tools that are agents in the background."""
        return tuple(tool.name for tool in self.tools if isinstance(tool, AgentTool) and tool.background)

    @property
    def set_habits(self) -> tuple[str, ...] | None:
        """The habits that it sets; None: those that are learned apply."""
        if not self.system_first:
            return None if self.habits is None else tuple(self.habits)
        return tuple(dict.fromkeys((*(self.habits or ()), "system_first", "user_last")))

    @field_validator("older")
    @classmethod
    def _are_its_versions(cls, older: "Sequence[Agent]", info: ValidationInfo) -> "Sequence[Agent]":
        if any(agent.agent_id != info.data.get("agent_id") for agent in older):
            raise ValueError("an older version has the same agent_id")
        return older

    @field_validator("habits")
    @classmethod
    def _are_known(cls, habits: Sequence[str] | None) -> Sequence[str] | None:
        for name in habits or ():
            if name not in HABITS:
                raise ValueError(f"'{name}' is no habit of an endpoint: use {', '.join(HABITS)}")
        return habits

    @field_validator("response_model")
    @classmethod
    def _has_schema(cls, given: Any) -> Any:
        from .message import check_schema

        model = load_attribute(given) if isinstance(given, str) else given
        if isinstance(model, type) and issubclass(model, BaseModel):
            return model
        if model is None or isinstance(model, dict):
            return model and check_schema(model)
        raise ValueError("give a pydantic model, or the JSON schema of an object")

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """The JSON schema of its answer where it is a tool of another agent; None where that is a text."""
        if isinstance(self.response_model, type) and issubclass(self.response_model, BaseModel):
            return self.response_model.model_json_schema()
        return self.response_model  # type: ignore[no-any-return]

    @field_validator("arguments")
    @classmethod
    def _is_object_schema(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        from .message import check_schema

        if schema is not None and schema.get("type") != "object":
            raise ValueError('give the schema of an object: type = "object"')
        return schema and check_schema(schema)


def production_file(path: str | Path) -> Path | None:
    """The one of an agents file and its older ones with `production = true`: no test may have its tools' effects."""
    return next((file for file, whole in _with_older_files(Path(path)).items() if whole.get("production")), None)


def refused_hosts(path: str | Path) -> list[str]:
    """The hosts that an agents file and its older ones list as `refuse_hosts`: no test may reach them."""
    return [name for file, whole in _with_older_files(Path(path)).items() for name in _hosts(whole, file)]


def _with_older_files(path: Path) -> dict[Path, dict[str, Any]]:
    """The tables of an agents file, of those in its list `older`, and of theirs."""
    found: dict[Path, dict[str, Any]] = {}
    left = [path]
    while left:
        file = left.pop()
        if file.resolve() not in [known.resolve() for known in found]:
            found[file] = read_file(file)
            left += [file.parent / name for name in _older_files(found[file], file)]
    return found


def _hosts(whole: Mapping[str, Any], file: Path) -> list[str]:
    names = whole.get("refuse_hosts", [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise ConfigurationError(
            '`refuse_hosts` in the agents file {file} must be a list of hosts: refuse_hosts = ["api.example.com"].',
            file=file,
        )
    return names


def load_agents(path: str | Path) -> list[Agent]:
    """Read agents from a TOML file: one `[[agent]]` table each, fields as in `Agent`; `prompt_file` is read beside it.

    The agents of the files in its list `older` are older versions of those that it has.

    Raises:
        ConfigurationError: naming the file, the agent and the field that is wrong.
    """
    file = Path(path)
    whole = read_file(file)
    tables = whole.get("agent", [])
    if not tables and whole.keys() & {"modes", "flows", "spend", "audit", "quotas"}:
        return []
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError("The agents file {file} contains no [[agent]] table.", file=file)
    agents = [_agent_of(table, file, number) for number, table in enumerate(tables, start=1)]
    ids = [agent.agent_id for agent in agents]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ConfigurationError(
            "The agents file {file} has more than one agent '{name}': rename one, or put its older version into "
            "[[agent.older]].",
            file=file,
            name=min(twice),
        )
    older = [agent for name in _older_files(whole, file) for agent in load_agents(file.parent / name)]
    return [_with_older(agent, older) for agent in agents]


def _older_files(whole: Mapping[str, Any], file: Path) -> list[str]:
    names = whole.get("older", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(
            '`older` in the agents file {file} must be a list of files: older = ["old.toml"].', file=file
        )
    return names


def _with_older(agent: Agent, older: Sequence[Agent]) -> Agent:
    """The agent with its older versions of other files, and theirs."""
    found = [each for each in older if each.agent_id == agent.agent_id]
    more = [version for each in found for version in (each, *each.older)]
    return agent.model_copy(update={"older": (*agent.older, *more)}) if more else agent


def load_modes(path: str | Path) -> dict[str, Any]:
    """Graphs of one's own from the same file: a `[modes]` table of `name = "module:graph"`."""
    table = read_file(Path(path)).get("modes", {})
    if not isinstance(table, dict) or not all(isinstance(name, str) for name in table.values()):
        raise ConfigurationError(
            'The [modes] table of {path} needs lines such as: shout = "my_module:graph".', path=path
        )
    return {mode: load_attribute(name) for mode, name in table.items()}


_TABLES = {"agent", "older", "modes", "flows", "production", "refuse_hosts"}
_TABLES |= {"schedule", "notify", "approvals", "spend", "audit", "quotas"}


def read_file(file: Path) -> dict[str, Any]:
    """The tables of an agents file, with the environment's variables in their strings.

    Modules that it names are then also looked for in its folder.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        whole: dict[str, Any] = resolve(tomllib.loads(text), os.environ)
        if unknown := whole.keys() - _TABLES:
            tables = "[[agent]], [[schedule]], [[notify]], [approvals], [modes], [flows], [spend], [audit], [quotas]"
            may = f"older, production, refuse_hosts, {tables}"
            raise ConfigurationError(
                "The agents file {file} has the unknown key '{unknown}'; use {may}.",
                file=file,
                unknown=min(unknown),
                may=may,
            )
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigurationError("The agents file {file} cannot be read: {error}.", file=file, error=why) from error
    except Unset as unset:
        if not unset.name:
            raise ConfigurationError(
                "The agents file {file} has a {start} in {place} that begins no variable: write {example}, or {escape} "
                "for the characters themselves.",
                file=file,
                start="${",
                place=unset.place,
                example="${NAME} or ${NAME:-default}",
                escape="$${",
            ) from None
        lines = text.splitlines()
        line = next((n for n, line in enumerate(lines, start=1) if f"${{{unset.name}}}" in line), 1)
        raise ConfigurationError(
            "The agents file {file} uses the environment variable {name} in line {line} ({place}), which is not set: "
            "set it, or write a default, as in {example}.",
            file=file,
            name=unset.name,
            line=line,
            place=unset.place,
            example=f"${{{unset.name}:-default}}",
        ) from unset
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return whole


def _agent_of(table: dict[str, Any], file: Path, number: int) -> Agent:
    values = dict(table)
    if "agent_id" not in values:
        example = values.get("id") or values.get("name") or "support"
        raise ConfigurationError(
            'Agent {number} in {file} has no agent_id: add agent_id = "{example}".',
            number=number,
            file=file,
            example=example,
        )
    if prompt_file := values.pop("prompt_file", None):
        try:
            values["prompt"] = (file.parent / str(prompt_file)).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                "The prompt file {prompt_file} of {file} cannot be read: {error}.",
                prompt_file=prompt_file,
                file=file,
                error=error,
            ) from error
    if isinstance(older := values.get("older"), list) and all(isinstance(each, dict) for each in older):
        values["older"] = [_agent_of({"agent_id": values["agent_id"], **each}, file, number) for each in older]
    try:
        return Agent(**values)
    except ValidationError as error:
        first = error.errors()[0]
        *inside, field = (str(part) for part in first["loc"])
        name = number if first["loc"][:1] == ("agent_id",) else table["agent_id"]
        if first["type"] == "extra_forbidden":
            raise UnknownField(str(name), file, [*inside, field], _fields_beside(inside)) from None
        raise ConfigurationError(
            "The agent '{name}' in {file}: {where}: {reason}.",
            name=name,
            file=file,
            where=".".join([*inside, field]),
            reason=first["msg"].removeprefix("Value error, "),
        ) from None  # pydantic's text has the values


def _fields_beside(inside: Sequence[str]) -> list[str]:
    """The fields that the table which is `inside` the agent's may have."""
    tables: dict[str, type[BaseModel]] = {
        **{"budget": Budget, "prices": Prices, "mcp": McpServer, "a2a": RemoteAgent},
        "allow": AllowRule,
    }
    kind = OAuth if inside[-1:] == ["oauth"] else tables[inside[0]] if inside else Agent
    return [*kind.model_fields, *([] if inside else ["prompt_file"])]


def load_attribute(name: str) -> Any:
    """Import what `module:attribute` names."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except SegueError:
        raise
    except (Exception, SystemExit) as error:
        explained = isinstance(error, ImportError | SyntaxError | AttributeError | ValueError | TypeError)
        why = str(error) if explained else f"{type(error).__name__}: {error}"
        raise ConfigurationError("'{name}' cannot be imported: {error}.", name=name, error=why) from error


# Tables of the agents file that are settings of the app.

Settings = TypeVar("Settings", bound=BaseModel)


def load_table(path: str | Path, name: str, kind: type[Settings]) -> Settings | None:
    """A table of an agents file; None where the file has none of that name."""
    table = read_file(Path(path)).get(name)
    try:
        return None if table is None else kind.model_validate(table)
    except ValidationError as error:
        field, reason = first_fault(error)
        raise ConfigurationError(
            "The [{table}] table of {file}: {field}{reason}.", table=name, file=path, field=field, reason=reason
        ) from None


def list_tables(path: str | Path, name: str) -> list[dict[str, Any]]:
    """The `[[name]]` tables of an agents file."""
    tables = read_file(Path(path)).get(name, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(
            "`{table}` in the agents file {file} must be a list of tables: [[{table}]].", table=name, file=path
        )
    return tables


def first_fault(error: ValidationError) -> tuple[str, str]:
    """The field that is wrong first, as it begins a sentence, and why; the field is empty for a table as a whole."""
    first = error.errors()[0]
    return "".join(f"{part}: " for part in first["loc"][:1]), first["msg"].removeprefix("Value error, ")
