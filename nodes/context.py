"""The context of a node, the budget of a prompt, references to results, and tool messages."""

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.runtime import Runtime

from segue.core.agents import Agent
from segue.core.attachments import ATTACHMENTS
from segue.core.calls import UNKNOWN_OUTCOME, CallResult
from segue.core.context import AppContext, RunContext, Services
from segue.core.errors import ConfigurationError
from segue.core.events import Delta, Durable
from segue.core.models import KEPT, Model, is_local, tokens
from segue.core.tools import CallKey, Ledger, Tool

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

    def seconds_since(self, started_at: float) -> float:
        """Seconds worked on a task: time that it was paused or without a process does not count."""
        return self.services.clock() - max(started_at, self.services.began)

    @property
    def emit(self) -> Callable[[Delta], None]:
        """Streams a delta; what is durable is returned from the node under `events` instead."""
        return self.services.emit


def node_context(runtime: NodeRuntime) -> NodeContext:
    """The services of the run.

    Raises:
        ConfigurationError: the graph was put together without them.
    """
    context = runtime.context
    if not isinstance(context, AppContext) or context.services is None:
        raise ConfigurationError("A node has no services: build its graph as an AgentGraph.")
    return NodeContext(context.services, context, context.services.agent(context.agent))


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


def as_json(value: Any) -> str:
    """Compact JSON that keeps Chinese readable."""
    return json.dumps(value, ensure_ascii=False, default=str)


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else as_json(value)


def truncate_result(result: dict[str, Any], most: int, ref: str = "") -> dict[str, Any]:
    """A tool's result as it goes into a prompt or an event: whole where it fits, else its beginning as text."""
    text = as_json(result)
    if len(text) <= most:
        return result
    read = CallResult.of(result)
    kind = "success" if read.success else "error"
    marks = {name: mark for name, mark in result.items() if name not in (kind, "stack")}
    return {kind: truncate(as_text(read.content), most, ref), **marks}


def truncate_together(entries: Sequence[dict[str, Any]], most_chars: int, most_tokens: int) -> list[dict[str, Any]]:
    """Entries with their `result` truncated to `most_chars` each, and shorter until all of them together fit."""
    while True:
        shown = [{**entry, "result": truncate_result(entry["result"], most_chars)} for entry in entries]
        if most_chars <= 100 or tokens(as_json(shown)) <= most_tokens:
            return shown
        most_chars //= 2


def ref_of(message: AnyMessage) -> str:
    """The name under which `recall` opens a tool's result; empty where it has none."""
    return str(message.additional_kwargs.get("ref", ""))


def conversation(messages: Sequence[AnyMessage], result_chars: int) -> list[dict[str, Any]]:
    """Messages as plain records: {"role", "content", "files"?: [name], "tool_calls"?: [{"name", "args"}]}."""
    return [_record(message, result_chars) for message in messages]


def _record(message: AnyMessage, result_chars: int) -> dict[str, Any]:
    roles = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}
    record: dict[str, Any] = {"role": roles.get(message.type, message.type), "content": message.text}
    if files := message.additional_kwargs.get(ATTACHMENTS):
        record["files"] = [form["name"] for form in files]
    if isinstance(message, AIMessage) and message.tool_calls:
        record["tool_calls"] = [{"name": call["name"], "args": call["args"]} for call in message.tool_calls]
    if isinstance(message, ToolMessage):
        record["content"] = truncate(message.text, result_chars, ref_of(message))
    return record


# References of a call's arguments to earlier results: {"$ref": "steps.1.result.cities.0"}.

REF: Final = "$ref"


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
    """A call's arguments with every reference in them replaced.

    Raises:
        DanglingReference: one leads nowhere, or stands in place of all arguments.
    """
    if isinstance(arguments.get(REF), str):
        raise DanglingReference(
            f"{arguments[REF]!r} stands in place of all arguments: refer to a result in each of them"
        )
    return {name: resolve(value, look_up) for name, value in arguments.items()}


def follow(value: Any, path: Sequence[str], reference: str) -> Any:
    """The part of a value that a path of fields and places leads to.

    Raises:
        DanglingReference: a field or place is not there.
    """
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


def recall_ref(key: CallKey) -> str:
    """The name of a call's result for `recall`."""
    return f"{key.task_id[:8]}.{_short(key.scope)}.{key.index}"


def _short(scope: str) -> str:
    """The beginning of a recursion's uuid; a step's name whole."""
    return scope if "#" in scope else scope[:8]


def kept(result: dict[str, Any], key: CallKey, ledger: Ledger | None) -> dict[str, Any]:
    """What the state and the history keep of a result: all of it, unless the ledger has a very large one."""
    return result if ledger is None else truncate_result(result, KEPT_CHARS, recall_ref(key))


def exchange(thought: str, calls: Sequence[Settled], kept: Mapping[str, Any] | None = None) -> list[AnyMessage]:
    """One assistant message with all the calls, then one tool message a call; `kept` is what the model wants back."""
    made = [
        {"id": call.call_id, "name": call.name, "args": dict(call.arguments), "type": "tool_call"} for call in calls
    ]
    about = {KEPT: dict(kept)} if kept else {}
    return [AIMessage(thought, tool_calls=made, additional_kwargs=about), *(_result(call) for call in calls)]


def _result(call: Settled) -> ToolMessage:
    result = CallResult.of(call.result)
    about: dict[str, Any] = {"ref": recall_ref(call.key), "key": asdict(call.key)} if call.key else {}
    if result.unknown:
        about[UNKNOWN_OUTCOME] = True
    text = as_text(result.content)
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
