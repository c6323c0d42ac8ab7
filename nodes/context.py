"""What a node has, its context, and what it puts into a prompt: limits, references, results, history, tools."""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, Final, Protocol, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime
from pydantic import Field

from segue.core.agents import Agent
from segue.core.calls import ASK_USER, DIRECTORY_SCOPE, UNKNOWN_OUTCOME, CallKey, CallResult, CallStatus, Ledger, Tool
from segue.core.context import AppContext, RunContext, Services
from segue.core.errors import ConfigurationError
from segue.core.events import Delta, Durable
from segue.core.json import NOISE, plain_schema
from segue.core.message import ATTACHMENTS, ReplyOptions
from segue.core.models import KEPT, Model, Renderings, is_local, tokens
from segue.core.plan import Status
from segue.prompts.catalogue import task_text
from segue.tools.registry import BoundTool, as_tool, tool

NodeRuntime = Runtime[RunContext]
State = TypeVar("State", contravariant=True)
Update = TypeVar("Update", covariant=True)


class Node(Protocol[State, Update]):
    """A node that is made for one configuration or graph."""

    def __call__(self, state: State, runtime: NodeRuntime) -> Awaitable[Update]: ...


@dataclass(frozen=True)
class NodeContext:
    """What a node works with: the services, and the agent with its model and tools."""

    services: Services
    context: RunContext
    agent: Agent

    @property
    def model(self) -> Model:
        return self.services.model_for(self.agent, self.context.model)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.services.tools_for(self.agent)

    @property
    def accepted(self) -> Collection[str]:
        """The kinds of files that the model reads beside text."""
        return self.services.agents.accepted(self.agent, self.context.model)

    @property
    def state_last(self) -> bool:
        """Whether the state follows the records in a json prompt."""
        return self.agent.state == "last" or (self.agent.state is None and is_local(self.model.name))

    @property
    def asks_user(self) -> bool:
        """Whether its task may ask the user a question; a tool of that name takes the place of the question."""
        return self.services.reply_options.may_ask(self.agent.ask_user) and ASK_USER not in self.tools

    @property
    def reviews_plan(self) -> bool:
        """Whether a person reviews the plans of its task: the message decides, else the agent."""
        chosen, wanted = self.services.reply_options.review_plan, self.agent.review_plan
        if chosen is not None or isinstance(wanted, bool):
            return bool(wanted if chosen is None else chosen)
        return not {*self.services.within, self.context.mode}.isdisjoint(wanted)

    def seconds_since(self, started_at: float) -> float:
        """Seconds worked on a task: time that it was paused or without a process does not count."""
        return self.services.clock() - max(started_at, self.services.began)

    @property
    def emit(self) -> Callable[[Delta], None]:
        """Streams a delta; what is durable is returned from the node under `events` instead."""
        return self.services.emit


def node_context(runtime: NodeRuntime) -> NodeContext:
    """The services of the run."""
    context = runtime.context
    if not isinstance(context, AppContext) or context.services is None:
        raise ConfigurationError("A node has no services: build its graph as an AgentGraph.")
    services = context.services
    return NodeContext(services, context, _within_limits(services.agent(context.agent), services.reply_options))


def _within_limits(agent: Agent, options: ReplyOptions) -> Agent:
    """The agent of a task whose budget is part of another one's: what is left of that is the most."""
    most: dict[str, float] = {}
    if options.most_calls is not None:
        most["tool_calls"] = min(agent.budget.tool_calls, options.most_calls)
    if options.most_seconds is not None:
        most["seconds"] = min(agent.budget.seconds, options.most_seconds)
    return agent.model_copy(update={"budget": agent.budget.model_copy(update=most)}) if most else agent


def announce(*events: Durable) -> list[dict[str, Any]]:
    """Durable events in the form that a node returns under `events`."""
    return [event.json() for event in events]


# Limits on the size of what goes into a prompt.

KEPT_CHARS = 65_536
"""Characters of a result that the state and the history keep where a ledger has the whole."""


def truncate(text: str, most: int, ref: str = "") -> str:
    """The text, or its beginning with a note of how much is left out and how to open it."""
    if len(text) <= most:
        return text
    how = f": recall(ref={ref!r}, offset={most})" if ref else ""
    return f"{text[:most]}… [{len(text) - most} more characters{how}]"


FIELDS: Final = "fields"
"""In a tool's message: the names of the fields of its result that its request names."""
_SHORT: Final = 400
"""Characters of a result up to which nothing is noted of its fields: it is seldom truncated."""
_TAIL: Final = 4
"""One part in so many of a result that is truncated is its end; half of it may go to fields of what is between."""
_FIELD = re.compile(
    r'"([^"\\\n]{1,40})"\s{0,4}:\s{0,4}("(?:[^"\\\n]|\\.){0,60}"|-?\d[\d.eE+-]{0,30}|true|false|null)|'
    r"^[ \t-]{0,8}([^\W\d_][\w -]{1,40}):[ \t]{1,4}(\S.{0,60})$",
    re.MULTILINE,
)
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_a-zA-Z]+")
_SAYS_LITTLE = re.compile(r"ids?|nos?|of|the|is|in|to|and|for|names?|types?|values?|data|text|item|key")
"""Words of a field's name that say little of what it holds."""


def excerpt(text: str, most: int, ref: str = "", names: Collection[str] = ()) -> str:
    """A result, or its beginning and end with a note of how much is between, how to open it, and its named fields."""
    if len(text) <= most:
        return text
    tail = most // _TAIL
    head, room = most - tail, tail // 2 if names else 0
    between = text[head : len(text) - tail + room]
    told = _told(between, names, room)
    between = text[head : len(text) - tail + len(told)]
    how = f": recall(ref={ref!r}, offset={head})" if ref else ""
    note = f"{len(between)} more characters{how}{f'; in them {told}' if told else ''}"
    return f"{text[:head]}… [{note}] …{text[head + len(between) :]}"


def _told(text: str, names: Collection[str], most: int) -> str:
    """The fields of a text with these names, as many as there is room for, and how many more there are."""
    found = dict.fromkeys(f"{name}: {value}" for name, value in _fields_in(text) if name in names)
    told, used = list[str](), 16
    for each in found:
        used += len(each) + 2
        if used > most:
            break
        told.append(each)
    left = len(found) - len(told)
    return ", ".join([*told, *([f"{left} more"] if left and told else [])])


def _fields_in(text: str) -> Iterator[tuple[str, str]]:
    """The fields of a text with their values where these are short: of JSON, or on lines of their own."""
    for found in _FIELD.finditer(text):
        yield (found[1], found[2]) if found[1] else (found[3].strip(), found[4].strip())


def fields_named(text: str, request: str) -> list[str]:
    """The names of fields of a text of which a request has a word."""
    asked = {_stem(word) for word in _NAME_WORD.findall(request)}
    plain = request.casefold()
    named = []
    for name in dict.fromkeys(name for name, _ in _fields_in(text)):
        words = {_stem(word) for word in _NAME_WORD.findall(name) if not _SAYS_LITTLE.fullmatch(word.lower())}
        if words & asked or (not name.isascii() and name.casefold() in plain):
            named.append(name)
    return named


def _stem(word: str) -> str:
    return word.lower().removesuffix("s")


def as_json(value: Any) -> str:
    """Compact JSON that keeps Chinese readable."""
    return json.dumps(value, ensure_ascii=False, default=str)


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def truncate_result(result: dict[str, Any], most: int, ref: str = "", request: str = "") -> dict[str, Any]:
    """A tool's result as it goes into a prompt or an event: whole where it fits, else an excerpt for its request."""
    text = as_json(result)
    if len(text) <= most:
        return result
    read = CallResult.of(result)
    kind = "success" if read.success else "error"
    marks = {name: mark for name, mark in result.items() if name not in (kind, "stack")}
    content = as_text(read.content)
    return {kind: excerpt(content, most, ref, fields_named(content, request)), **marks}


def truncate_together(
    entries: Sequence[dict[str, Any]], most_chars: int, most_tokens: int, request: str = ""
) -> list[dict[str, Any]]:
    """Entries with their `result` truncated to `most_chars` each, and shorter until all of them together fit."""
    while True:
        shown = [
            {**entry, "result": truncate_result(entry["result"], most_chars, request=request)} for entry in entries
        ]
        if most_chars <= 100 or tokens(as_json(shown)) <= most_tokens:
            return shown
        most_chars //= 2


def ref_of(message: AnyMessage) -> str:
    """The name under which `recall` opens a tool's result; empty where it has none."""
    return str(message.additional_kwargs.get("ref", ""))


def excerpt_of(message: AnyMessage, result_chars: int) -> str:
    """A tool's message as a prompt shows it."""
    return excerpt(message.text, result_chars, ref_of(message), message.additional_kwargs.get(FIELDS, ()))


def conversation(messages: Sequence[AnyMessage], result_chars: int) -> list[dict[str, Any]]:
    """Messages as plain records: {"role", "content", "files"?: [name], "tool_calls"?: [{"name", "args"}]}."""
    return [_record(message, result_chars) for message in messages]


def _record(message: AnyMessage, result_chars: int) -> dict[str, Any]:
    roles = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
    role = DIGEST if is_digest(message) else roles.get(message.type, message.type)
    record: dict[str, Any] = {"role": role, "content": message.text}
    if files := message.additional_kwargs.get(ATTACHMENTS):
        record["files"] = [form["name"] for form in files]
    if isinstance(message, AIMessage) and message.tool_calls:
        record["tool_calls"] = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        record["content"] = excerpt_of(message, result_chars)
    return record


# References of a call's arguments to earlier results: {"$ref": "steps.1.result.cities.0"}.

REF: Final = "$ref"


def is_hidden(tools: Iterable[Tool]) -> bool:
    """Whether results of one of the tools are hidden, so that calls may refer to them."""
    return any(tool.hidden for tool in tools)


class DanglingReference(Exception):
    """A reference leads nowhere; the message says where it broke off."""


def references(value: Any) -> Iterator[str]:
    """The references in a value, however deep."""
    if isinstance(value, Mapping):
        if isinstance(value.get(REF), str):
            yield value[REF]
            return
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def resolve(value: Any, look_up: Callable[[str], Any]) -> Any:
    """The value with every reference replaced by what `look_up` gives for it."""
    if isinstance(value, Mapping):
        if isinstance(value.get(REF), str):
            return look_up(value[REF])
        return {name: resolve(inner, look_up) for name, inner in value.items()}
    if isinstance(value, list):
        return [resolve(inner, look_up) for inner in value]
    return value


def resolve_arguments(arguments: Mapping[str, Any], look_up: Callable[[str], Any]) -> dict[str, Any]:
    """A call's arguments with every reference in them replaced."""
    if isinstance(arguments.get(REF), str):
        raise DanglingReference(
            f"{arguments[REF]!r} stands in place of all arguments: refer to a result in each of them"
        )
    return {name: resolve(value, look_up) for name, value in arguments.items()}


def follow(value: Any, path: Sequence[str], reference: str) -> Any:
    """The part of a value that a path of fields and places leads to."""
    for part in path:
        value = _enter(value, part, reference)
    return value


def _enter(value: Any, part: str, reference: str) -> Any:
    if isinstance(value, Mapping) and part in value:
        return value[part]
    if isinstance(value, list) and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    there = (
        list(value) if isinstance(value, Mapping) else f"{len(value)} items" if isinstance(value, list) else "no fields"
    )
    raise DanglingReference(f"{reference!r} breaks off at {part!r}; there is: {there}")


# A round's tool calls and their results, as the thread's history keeps them.


@dataclass(frozen=True)
class Settled:
    """A call that has its result; `key` is its place in the ledger, None for a control tool's."""

    call_id: str
    name: str
    arguments: Mapping[str, Any]
    result: Mapping[str, Any]
    key: CallKey | None = None


REJECTED: Final = "rejected"
"""Marks the result of a call that a person rejected."""


def recall_ref(key: CallKey) -> str:
    """The name of a call's result for `recall`."""
    return f"{key.task_id[:8]}.{_short(key.scope)}.{key.index}"


def is_lookup(scope: str) -> bool:
    """Whether Segue itself made the calls with this scope, to read a directory: no model saw them."""
    return scope.startswith(DIRECTORY_SCOPE)


def _short(scope: str) -> str:
    """The beginning of a recursion's uuid; a step's name whole."""
    return scope if "#" in scope else scope[:8]


def kept(result: dict[str, Any], key: CallKey, ledger: Ledger | None) -> dict[str, Any]:
    """What the state and the history keep of a result: all of it, unless the ledger has a very large one."""
    return result if ledger is None else truncate_result(result, KEPT_CHARS, recall_ref(key))


def exchange(
    thought: str, calls: Sequence[Settled], kept: Mapping[str, Any] | None = None, request: str = ""
) -> list[AnyMessage]:
    """One assistant message with all the calls, then one tool message a call; `kept` is what the model wants back.

    Each remembers which fields of its result the request names.
    """
    made = [
        {"id": call.call_id, "name": call.name, "args": dict(call.arguments), "type": "tool_call"} for call in calls
    ]
    about = {KEPT: dict(kept)} if kept else {}
    return [AIMessage(thought, tool_calls=made, additional_kwargs=about), *(_result(call, request) for call in calls)]


def _result(call: Settled, request: str) -> ToolMessage:
    result = CallResult.of(call.result)
    about: dict[str, Any] = {"ref": recall_ref(call.key), "key": asdict(call.key)} if call.key else {}
    if result.unknown:
        about[UNKNOWN_OUTCOME] = True
    if result.status is CallStatus.REJECTED:
        about[REJECTED] = True
    text = as_text(result.content)
    if len(text) > _SHORT and (named := fields_named(text, request)):
        about[FIELDS] = named
    return ToolMessage(
        f"{text}\n\n{result.note}" if result.note else text,
        tool_call_id=call.call_id,
        status="success" if result.success else "error",
        additional_kwargs=about,
    )


def calls_in(messages: Sequence[AnyMessage]) -> list[dict[str, Any]]:
    """The calls that messages hold, with their results: {name, arguments, result, ref}."""
    made = [(call["name"], call["args"]) for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    return [
        {
            "name": name,
            "arguments": arguments,
            "result": {"error" if message.status == "error" else "success": message.text},
            "ref": ref_of(message),
        }
        for (name, arguments), message in zip(made, results, strict=False)
    ]


# The tool that opens a result again.

_LookUp = Callable[[str], Awaitable[str | None]]


def recall_tool(look_up: _LookUp, chars: int) -> BoundTool:
    """The tool over `look_up`, which gives a result's whole text by its ref; it opens `chars` characters at a time.

    For an empty ref `look_up` lists the results.
    """

    async def opened(values: Mapping[str, Any]) -> dict[str, Any]:
        return await recall(**values, look_up=look_up, chars=chars)

    form = _form()
    return replace(form, inner=form.inner.model_copy(update={"function": opened}))


@cache
def _form() -> BoundTool:
    """The tool with its schema, which takes longer to make than a call."""
    return as_tool(partial(recall, look_up=None, chars=0))  # type: ignore[arg-type]  # only its schema is used


@tool(read_only=True)
async def recall(
    ref: Annotated[str, Field(description="the result's ref; empty: list all earlier results and their refs")] = "",
    offset: Annotated[int, Field(ge=0, description="the character to go on from")] = 0,
    *,
    look_up: _LookUp,
    chars: int,
) -> dict[str, Any]:
    """Open an earlier result that was truncated or is no longer shown, from `offset` on."""
    text = await look_up(ref)
    if text is None:
        raise ValueError(f"There is no result {ref!r}: call recall without a ref to list the refs there are.")
    end = offset + chars
    following = end if end < len(text) else None
    return {
        "ref": ref,
        "offset": offset,
        "text": text[offset:end],
        "next_offset": following,
        "total_chars": len(text),
    }


# Messages that were added to a task under way, and the one that stands for those that a prompt leaves out.

STEER = "steer"
"""Marks a user's message that was added to a task under way and began none."""


def is_steering(message: AnyMessage) -> bool:
    """Whether the message was added to a task under way."""
    return message.type == "human" and bool(message.additional_kwargs.get(STEER))


DIGEST: Final = "digest"
"""In a message: the digest that it shows, as JSON. The text is stored once, however many snapshots have it."""


def is_digest(message: AnyMessage) -> bool:
    """Whether the message stands for others."""
    return DIGEST in message.additional_kwargs


# Descriptions of tools in a prompt, and their schemas in a reply.

MOST_STEPS = 20
"""Steps that a model is asked for at most; a longer plan is accepted."""

_TEXT = {"type": "string"}


def described(tools: Mapping[str, Tool], language: str, renderings: Renderings | None = None) -> str:
    """One line a tool: name, parameters' schema, what it does."""
    return described_specs([tool.spec for tool in tools.values()], language, renderings)


def described_specs(specs: Sequence[Mapping[str, Any]], language: str, renderings: Renderings | None = None) -> str:
    """The same of specifications in OpenAI's format."""
    return "\n".join((renderings or Renderings()).each(_line, specs)) or task_text("no_tools", language)


def _line(spec: Mapping[str, Any]) -> str:
    function = spec["function"]
    parameters = function.get("parameters", {})
    shown = _plain(parameters).get("properties", {})
    required = parameters.get("required", [])
    about = " ".join(str(function.get("description", "")).split())
    return f"- `{function['name']}` {as_json(shown)} required: {as_json(required)}: {about}"


def _plain(schema: Any) -> Any:
    """A parameter's schema without titles and what only Segue reads."""
    return plain_schema(schema, (*NOISE, "title"))


def _object(properties: Mapping[str, Any], *optional: str) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def _call_schema(tool: Tool, refer: bool) -> dict[str, Any]:
    """The form of a call; what the parameters mean is said in the prompt."""
    arguments = plain_schema(tool.spec["function"]["parameters"], (*NOISE, "title", "description"))
    if refer:
        arguments = or_references(arguments)
    return _object({"function": _object({"name": {"const": tool.name}, "arguments": arguments})})


def _action(kind: str, output: Mapping[str, Any], planned: bool) -> dict[str, Any]:
    progress = {"step_id": _TEXT, "step_status_update": _UPDATES} if planned else {}
    return _object({"action_type": {"const": kind}, "output": output, **progress}, *progress)


def _planned(status: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's step, which may name the tool and the parameters of its call."""
    call = {"action": _TEXT, "params": {"type": "object"}}
    return _object({"step_id": _TEXT, "description": _TEXT, "status": status, **call}, *call)


_STATUS = {"enum": [status.value for status in Status]}
_UPDATES = {"type": "array", "items": _object({"step_id": _TEXT, "status": _STATUS})}
ACTIONS = ("CALL_TOOL", "PLAN", "REMEND", "CLARIFY", "ANSWER")
_QUESTION = _object({"question": _TEXT, "choices": {"type": "array", "items": _TEXT}}, "choices")


def envelope_schema(
    tools: Mapping[str, Tool], offered: Collection[str] = ACTIONS, planned: bool = True
) -> dict[str, Any]:
    """The JSON schema of a decision: one arm an action that is offered, one a tool.

    Without a plan there are no steps to name.
    """
    step = _planned({"enum": ["pending", "done"]})
    plan = {"type": "array", "items": step, "minItems": 1}
    outputs = {
        "ANSWER": [_object({"answer": _TEXT})],
        "CLARIFY": [_QUESTION],
        "PLAN": [_object({"plan": plan, "notes": _TEXT})],
    }
    if tools:
        refer = is_hidden(tools.values())
        arms = [_call_schema(tool, refer) for tool in tools.values()]
        calls = {"type": "array", "items": {"anyOf": arms}, "minItems": 1}
        outputs["CALL_TOOL"] = [_object({"tool_calls": calls})]
        outputs["REMEND"] = [
            _object({"diagnosis": _TEXT, "tool_calls": calls}),
            _object({"diagnosis": _TEXT, "plan": plan}),
        ]
    actions = [_action(kind, output, planned) for kind in offered for output in outputs.get(kind, ())]
    return _object({"observe": _TEXT, "thought": _TEXT, "action": _object({"result": {"anyOf": actions}})})


def plan_schema(tools: Mapping[str, Tool], asks_user: bool = False) -> dict[str, Any]:
    """The JSON schema of a plan: one arm a tool, with its own parameters, and one for a question to the user."""
    arms = [
        _step_schema(tool.name, or_references(_plain(tool.spec["function"]["parameters"]))) for tool in tools.values()
    ]
    if asks_user:
        arms.append(_step_schema(ASK_USER, _QUESTION))
    arms.append(_step_schema("none", {"type": "object", "properties": {}, "additionalProperties": False}))
    steps = {"type": "array", "items": {"anyOf": arms}, "minItems": 1, "maxItems": MOST_STEPS}
    return _object({"goal": _TEXT, "steps": steps})


def _step_schema(action: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return _object(
        {
            "step": {"type": "integer"},
            "action": {"const": action},
            "params": params,
            "description": _TEXT,
            "phase": {"enum": ["planning", "execution", "generation"]},
            "depends_on": {"type": "array", "items": {"type": "integer"}},
        },
        "depends_on",
    )


def or_references(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of arguments, each of which may be a reference instead."""
    refer = _object({REF: _TEXT})
    either = {name: {"anyOf": [given, refer]} for name, given in schema.get("properties", {}).items()}
    return {**schema, "properties": either} if either else {**schema}


def specs_of(tools: Mapping[str, Tool]) -> list[Mapping[str, Any]]:
    """The tools as the native protocol binds them; where results are hidden, an argument may refer to one."""
    specs = [tool.spec for tool in tools.values()]
    return [*map(_with_references, specs)] if is_hidden(tools.values()) else specs


def _with_references(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    function = spec["function"]
    return {**spec, "function": {**function, "parameters": or_references(function.get("parameters", {}))}}


def _control_tool(name: str, about: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": about, "parameters": parameters}}


_STEPS = {"type": "array", "items": _planned(_STATUS), "minItems": 1}
_CALLS = {"type": "array", "items": _object({"name": _TEXT, "arguments": {"type": "object"}})}

CONTROL_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "plan": _control_tool(
        "plan",
        "Before a task of several steps, list them; or rewrite them, all with their status: finished steps stay. Or "
        "only report progress with step_status_update. Call it alone.",
        _object(
            {"plan": _STEPS, "notes": _TEXT, "step_status_update": _UPDATES}, "plan", "notes", "step_status_update"
        ),
    ),
    "remend": _control_tool(
        "remend",
        "Repair a failed call: say what went wrong, and give the corrected calls or a new plan; step_id is the step "
        "that the calls work on. Call it alone.",
        _object(
            {"diagnosis": _TEXT, "tool_calls": _CALLS, "plan": _STEPS, "step_id": _TEXT},
            "tool_calls",
            "plan",
            "step_id",
        ),
    ),
    ASK_USER: _control_tool(
        ASK_USER,
        "Ask the user for something that only they know and that the task cannot go on without; choices are suggested "
        "answers. The result is the answer. Call it alone.",
        _QUESTION,
    ),
}
"""What the native protocol offers beside the agent's tools, where it makes sense."""
