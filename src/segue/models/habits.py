"""What endpoints require of a request: one row a habit, with the refusal that shows it and what is sent instead."""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import urlsplit

from ..core.agents import HABITS, HabitName
from ..core.errors import SegueError
from ..core.models import ModelReply, ModelRequest
from .transcript import plain_name

Json = dict[str, Any]
Change = Callable[[Json, ModelRequest], Json]
"""Gives the body that is sent instead; the same object where there is nothing to change."""

logger = logging.getLogger(__name__)

_HOST_OF_OPENAI = "api.openai.com"
LEFT_OUT = "(earlier messages are left out)"
EMPTY = "(empty)"
UNKNOWN_REASONING = "(not recorded)"
NO_SIGNATURE = "skip_thought_signature_validator"
"""What Gemini accepts in the place of the signature of a call that another model made."""


@dataclass(frozen=True)
class Habit:
    """What an endpoint requires, or cannot take.

    `refusal` finds it in the endpoint's error, in lower case; None: only the agent or the address says so. `instead_of`
    names the habits that it ends.
    """

    name: HabitName
    refusal: str | None
    send: Change
    instead_of: tuple[HabitName, ...] = ()

    def is_shown(self, text: str) -> bool:
        """Whether an endpoint's error shows it."""
        return self.refusal is not None and re.search(self.refusal, text) is not None


# What is sent instead. Messages are replaced, never changed.


def _with_messages(body: Json, messages: Sequence[Json]) -> Json:
    before = body.get("messages", [])
    same = len(messages) == len(before) and all(new is old for new, old in zip(messages, before, strict=True))
    return body if same else {**body, "messages": list(messages)}


def _each_message(change: Callable[[Json], Json]) -> Change:
    return lambda body, _: _with_messages(body, [change(message) for message in body.get("messages", ())])


def _without(*names: str) -> Change:
    def send(body: Json, _: ModelRequest) -> Json:
        return {k: v for k, v in body.items() if k not in names} if any(name in body for name in names) else body

    return send


def _renamed(old: str, new: str) -> Change:
    return lambda body, _: {new if k == old else k: v for k, v in body.items()} if old in body else body


def _is_system(message: Json) -> bool:
    return message["role"] in ("system", "developer")


def _system_first(body: Json, _: ModelRequest) -> Json:
    messages = body.get("messages", [])
    return _with_messages(body, [*filter(_is_system, messages), *(m for m in messages if not _is_system(m))])


def _one_system(body: Json, _: ModelRequest) -> Json:
    messages = body.get("messages", [])
    system = [message for message in messages if _is_system(message)]
    if not system:
        return body
    first = system[0] if len(system) == 1 else _joined(system)
    return _with_messages(body, [first, *(m for m in messages if not _is_system(m))])


def _no_system_role(body: Json, request: ModelRequest) -> Json:
    """The system's text begins the first message of the user."""
    messages = _one_system(body, request).get("messages", [])
    if not messages or not _is_system(messages[0]):
        return body
    system, *rest = messages
    place = next((place for place, message in enumerate(rest) if message["role"] == "user"), None)
    if place is None:
        return _with_messages(body, [{**system, "role": "user"}, *rest])
    asked = _joined([{**system, "role": "user"}, rest[place]])
    return _with_messages(body, [*rest[:place], asked, *rest[place + 1 :]])


def _alternate_roles(body: Json, request: ModelRequest) -> Json:
    """Neighbours of one role become one message; what the user says after a tool's result joins the result."""
    system_first = _one_system(body, request).get("messages", [])
    turns: list[Json] = []
    for message in system_first:
        before = turns[-1] if turns else {"role": ""}
        follows_result = message["role"] == "user" and before["role"] == "tool"
        same = message["role"] == before["role"] and message["role"] in ("user", "assistant")
        if follows_result or (same and not message.get("tool_calls") and not before.get("tool_calls")):
            turns[-1] = _joined([before, message])
            continue
        if message["role"] == "assistant" and (not turns or _is_system(before)):
            turns.append({"role": "user", "content": LEFT_OUT})
        turns.append(message)
    return _with_messages(body, turns)


def _joined(messages: Sequence[Json]) -> Json:
    """The first message, with the contents of all."""
    contents = [message.get("content") or "" for message in messages]
    if all(isinstance(content, str) for content in contents):
        return {**messages[0], "content": "\n\n".join(filter(None, contents))}
    parts: list[Any] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**messages[0], "content": parts}


def _user_last(body: Json, request: ModelRequest) -> Json:
    messages = body.get("messages", [])
    if not messages or messages[-1]["role"] != "assistant":
        return body
    return _with_messages(body, [*messages, {"role": "user", "content": request.nudge or "Go on."}])


def _developer_role(body: Json, _: ModelRequest) -> Json:
    messages = body.get("messages", ())
    return _with_messages(body, [{**m, "role": "developer"} if m["role"] == "system" else m for m in messages])


def _empty_content(message: Json) -> Json:
    return {**message, "content": ""} if message.get("content") is None else message


def _filled_content(message: Json) -> Json:
    if message.get("content") != "" and message.get("content") != []:
        return message
    return {**message, "content": None if message.get("tool_calls") else EMPTY}


def _content_or_calls(message: Json) -> Json:
    return {**message, "content": ""} if message.get("tool_calls") and message.get("content") else message


def _object_results(message: Json) -> Json:
    content = message.get("content")
    if message["role"] != "tool" or not isinstance(content, str):
        return message
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = content
    if isinstance(value, Mapping):
        return message
    return {**message, "content": json.dumps({"result": value}, ensure_ascii=False)}


_SIMPLE = ("type", "description", "minimum", "maximum", "required")


def _simple_schemas(body: Json, _: ModelRequest) -> Json:
    tools = []
    for tool in body.get("tools") or ():
        function = {name: value for name, value in tool["function"].items() if name not in ("parameters", "strict")}
        parameters = _simple_schema(tool["function"].get("parameters"))
        if parameters.get("properties"):
            function["parameters"] = parameters
        tools.append({**tool, "function": function})
    return {**body, "tools": tools} if tools != (body.get("tools") or []) else body


def _simple_schema(schema: Any) -> Json:
    """A schema in the words that all languages of schemas share; what else it demands is checked with the call."""
    if not isinstance(schema, Mapping):
        return {}
    simple = {name: schema[name] for name in _SIMPLE if name in schema}
    kinds = simple.get("type")
    if isinstance(kinds, list):
        simple["type"] = next((kind for kind in kinds if kind != "null"), "string")
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        simple = {"type": "string", **simple, "enum": values}
    elif isinstance(values, list):
        known = f"One of {json.dumps(values, ensure_ascii=False)}."
        simple["description"] = " ".join(filter(None, (simple.get("description"), known)))
    if isinstance(schema.get("properties"), Mapping):
        simple["properties"] = {name: _simple_schema(each) for name, each in schema["properties"].items()}
    if simple.get("type") == "array":
        simple["items"] = _simple_schema(schema.get("items")) or {"type": "string"}
    for part in map(_simple_schema, schema.get("allOf") or ()):
        both = {**part.get("properties", {}), **simple.get("properties", {})}
        required = [*part.get("required", ()), *simple.get("required", ())]
        simple = part | simple | ({"properties": both} if both else {}) | ({"required": required} if required else {})
    forms = [each for name in ("anyOf", "oneOf") for each in schema.get(name) or ()]
    kept = [_simple_schema(each) for each in forms if not isinstance(each, Mapping) or each.get("type") != "null"]
    if len(kept) == 1:
        return {**kept[0], **simple}
    return {**simple, "anyOf": kept} if kept else simple


def _tool_names(body: Json, _: ModelRequest) -> Json:
    names: dict[str, str] = {}
    messages = []
    for message in body.get("messages", ()):
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        unnamed = message["role"] == "tool" and not message.get("name")
        messages.append({**message, "name": names.get(message["tool_call_id"], "tool")} if unnamed else message)
    return _with_messages(body, messages)


def _with_ids(change: Callable[[str], str]) -> Change:
    """Another form of each call's id; the same id gets the same one, in the call and its result."""

    def send(message: Json) -> Json:
        if calls := message.get("tool_calls"):
            if all(change(call["id"]) == call["id"] for call in calls):
                return message
            return {**message, "tool_calls": [{**call, "id": change(call["id"])} for call in calls]}
        call_id = message.get("tool_call_id")
        if call_id is None or change(call_id) == call_id:
            return message
        return {**message, "tool_call_id": change(call_id)}

    return _each_message(send)


def _plain_id(call_id: str) -> str:
    return call_id if re.fullmatch("[a-zA-Z0-9_-]{1,40}", call_id) else f"call_{_digits(call_id, 24)}"


def _short_id(call_id: str) -> str:
    return call_id if re.fullmatch("[a-zA-Z0-9]{9}", call_id) else _digits(call_id, 9)


def _digits(text: str, count: int) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:count]


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """Names of tools in the API's alphabet, each another one."""
    names = [*names]
    found = {name: name for name in names if plain_name(name) == name}
    for name in names:
        if name in found:
            continue
        plain, number = plain_name(name), 1
        while plain in found.values():
            number += 1
            plain = f"{plain_name(name)[:60]}_{number}"
        found[name] = plain
    return found


def _plain_names(body: Json, _: ModelRequest) -> Json:
    known = plain_names([tool["function"]["name"] for tool in body.get("tools") or ()])

    def renamed(form: Json) -> Json:
        name = form["function"]["name"]
        plain = known.get(name) or plain_name(name)
        return form if plain == name else {**form, "function": {**form["function"], "name": plain}}

    def of_message(message: Json) -> Json:
        calls = message.get("tool_calls")
        new = [renamed(call) for call in calls or ()]
        same = all(one is other for one, other in zip(new, calls or (), strict=True))
        return message if same else {**message, "tool_calls": new}

    sent = _with_messages(body, [of_message(message) for message in body.get("messages", ())])
    if any(plain != name for name, plain in known.items()):
        sent = {**sent, "tools": [renamed(tool) for tool in body["tools"]]}
        if isinstance(sent.get("tool_choice"), Mapping):
            sent["tool_choice"] = renamed(sent["tool_choice"])
    return sent


def _json_object(body: Json, _: ModelRequest) -> Json:
    if body.get("response_format", {}).get("type") != "json_schema":
        return body
    return {**body, "response_format": {"type": "json_object"}}


_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")


def _no_reasoning(message: Json) -> Json:
    if not any(name in message for name in _REASONING):
        return message
    return {name: value for name, value in message.items() if name not in _REASONING}


def _reasoning_content(message: Json) -> Json:
    if not message.get("tool_calls") or message.get("reasoning_content"):
        return message
    return {**message, "reasoning_content": message.get("content") or UNKNOWN_REASONING}


def _thought_signatures(message: Json) -> Json:
    """Only the first call of a message needs one."""
    calls = message.get("tool_calls")
    if not calls or any("extra_content" in call for call in calls):
        return message
    signed = {**calls[0], "extra_content": {"google": {"thought_signature": NO_SIGNATURE}}}
    return {**message, "tool_calls": [signed, *calls[1:]]}


# The table, in the order in which its rows are tried.

_SYSTEM = (
    r"system[^.]{0,60}\b(beginning|first|start)\b|\b(beginning|first|start)\b[^.]{0,40}\bsystem"
    r"|role '?system'? after|\b(only|one|multiple|single)\b[^.]{0,40}system (message|prompt)"
    r"|system (message|prompt)s?[^.]{0,40}\b(one|multiple|single)\b"
)
_NO_SYSTEM = (
    r"system (role|message|prompt|instruction)s?[^.]{0,20} not (supported|allowed|permitted|enabled)"
    r"|not support[^.]{0,20} system|developer instruction is not enabled|role:? \W{0,2}system\W{0,2} is not"
    r"|unsupported role:? \W{0,2}system"
)
_ALTERNATE = (
    r"alternat|role '(user|tool|assistant)' after|roles in a row|consecutive (user|assistant|messages)"
    r"|first message must[^.]{0,30}user"
)
_USER_LAST = (
    r"prefill|\b(last|final|trailing)\b[^.]{0,30}\b(message|role|turn|assistant)\b|must end with|continue_final_message"
    r"|add_generation_prompt"
)
_FORMATS = (
    r"response_format|response format|json_schema|json_object|json mode|schema|structured output|grammar|guided"
    r"|outlines"
)
_NULL = (
    r"content[^.]{0,80}(null|none\b|valid string|required|missing|expected (a )?string|must be (a )?string)"
    r"|missing field \W{0,2}content|nonetype"
)
_BLANK = r"(content|text|message|part)[^.]{0,60}(empty|blank|at least 1 char)|empty (content|text|message)"
_TOOL_NAME = (
    r"function_?response\.name|tool message[^.]{0,60}\bname\b|name cannot be empty"
    r"|role \W{0,2}tool\W{0,2}[^.]{0,60}\bname\b"
)
_CONTENT_OR_CALLS = r"either content or tool_calls|\bboth\b[^.]{0,20}content[^.]{0,20}tool_calls|content and tool_calls"
_OBJECTS = r"function_?response\.response|google\.protobuf\.struct|tool (result|content)s?[^.]{0,40}json object"
_WORDS = r"(additionalproperties|\$schema|\$ref|\$defs|propertynames|oneof|anyof|const)\b"
_SCHEMAS = (
    r"(unknown name|cannot find field).{0,200}(function_?declarations|parameters)"
    r"|function_?declarations.{0,200}(enum|non-empty|type_|schema|format|items)"
    r"|invalid (json )?schema for (function|tool)"
    rf"|{_WORDS}.{{0,80}}(not |un)(support|permit|allow)|(unsupported|unknown|unrecognized).{{0,80}}{_WORDS}"
)
_ID = r"(tool_?(call|use)[\w.\[\]]*_?id|tool call id|call_id|tool_calls\[\d+\]\.id|tool_use\.id)"
_OLD_LIMIT = r"max_tokens.*max_completion_tokens"
_NO_REASONING = r"(reasoning|thinking_blocks)\w*.{0,100}(support|permit|allow|extra|unexpected|unknown|includ)"
_NAME = r"(function|tools?|tool_calls)\b[^{}]{0,80}\bname\b"
_FORM = r".{0,200}(pattern|a-z|too long|maximum length|invalid|characters|at most)"

TABLE: tuple[Habit, ...] = (
    Habit("no_stream_options", r"stream_options|include_usage", _without("stream_options")),
    Habit("max_completion_tokens", _OLD_LIMIT, _renamed("max_tokens", "max_completion_tokens"),
          ("max_tokens",)),
    Habit("max_tokens", r"max_completion_tokens", _renamed("max_completion_tokens", "max_tokens"),
          ("max_completion_tokens",)),
    Habit("developer_role", None, _developer_role),
    Habit("no_system_role", _NO_SYSTEM, _no_system_role),
    Habit("system_first", _SYSTEM, _system_first),
    Habit("one_system", _SYSTEM, _one_system),
    Habit("alternate_roles", _ALTERNATE, _alternate_roles),
    Habit("reasoning_content", r"reasoning_content.*(missing|must|required|passed back)|missing.*reasoning_content",
          _each_message(_reasoning_content), ("no_reasoning",)),
    Habit("no_reasoning", _NO_REASONING, _each_message(_no_reasoning), ("reasoning_content",)),
    Habit("thought_signatures", r"thought_?signature", _each_message(_thought_signatures)),
    Habit("short_ids", r"length of 9|must be a-z, a-z, 0-9", _with_ids(_short_id)),
    Habit("plain_ids", _ID + _FORM, _with_ids(_plain_id)),
    Habit("tool_names", _TOOL_NAME, _tool_names),
    Habit("plain_names", _NAME + _FORM, _plain_names),
    Habit("empty_content", _NULL, _each_message(_empty_content), ("filled_content",)),
    Habit("filled_content", _BLANK, _each_message(_filled_content), ("empty_content",)),
    Habit("content_or_calls", _CONTENT_OR_CALLS, _each_message(_content_or_calls)),
    Habit("object_results", _OBJECTS, _each_message(_object_results)),
    Habit("simple_schemas", _SCHEMAS, _simple_schemas),
    Habit("json_object", _FORMATS, _json_object),
    Habit("no_response_format", _FORMATS, _without("response_format")),
    Habit("user_last", _USER_LAST, _user_last),
)  # fmt: skip


def adapted(body: Json, request: ModelRequest, habits: Collection[str], address: str) -> Json:
    """The body as an endpoint of these habits takes it.

    LangChain gives the system of some models the role `developer`, by their names; it is OpenAI's own.
    """
    if urlsplit(address).hostname != _HOST_OF_OPENAI:
        messages = body.get("messages", ())
        body = _with_messages(body, [{**m, "role": "system"} if m["role"] == "developer" else m for m in messages])
    for habit in TABLE:
        if habit.name in habits:
            body = habit.send(body, request)
    return body


class Trial:
    """The habits of one call: those that are known, and those that a refusal of it shows."""

    def __init__(self, known: Collection[str], without: Collection[str] = ()) -> None:
        self.known = frozenset(known)
        self.active = self.known
        self._tried = [*without]
        self._before: tuple[str, frozenset[str]] | None = None
        """What the refusal said that the newest habit answers, and the habits before it; None after another failure."""

    def adapt(self, refusal: str, words: str, refused: bool, body: Json, request: ModelRequest) -> bool:
        """Take up the habit that a refusal of a body shows; return whether there is one to try.

        `refusal` is the whole error in lower case, `words` its message. `refused` says that the endpoint refuses the
        request, whatever its words are: a request that is to be continued from the assistant's message is then closed
        by the user's. A habit that did not change the message is dropped.
        """
        if self._before is not None and words == self._before[0]:
            self.active = self._before[1]
        self._before = None
        for habit in TABLE:
            guessed = habit.name == "user_last" and refused and bool(request.nudge)
            if habit.name in self.active or habit.name in self._tried:
                continue
            if (habit.is_shown(refusal) or guessed) and habit.send(body, request) is not body:
                self._tried.append(habit.name)
                self._before = words, self.active
                self.active = (self.active - {*habit.instead_of}) | {habit.name}
                return True
        return False


class HabitStore(Protocol):
    """Where habits are kept across processes."""

    async def of(self, endpoint: str) -> Collection[str]: ...

    async def put(self, endpoint: str, names: Collection[str]) -> None: ...


class Habits:
    """The habits of endpoints, each with a model: what this process has learned, and what is stored.

    A store that fails costs what it knows, not the call.
    """

    def __init__(self, store: HabitStore | None = None) -> None:
        self.store = store
        self._known: dict[str, frozenset[str]] = {}

    async def of(self, endpoint: str) -> frozenset[str]:
        """What is known."""
        if endpoint not in self._known:
            stored: frozenset[str] = frozenset()
            if self.store is not None:
                try:
                    stored = frozenset(HABITS) & {*await self.store.of(endpoint)}
                except SegueError as error:
                    logger.warning("The habits of %s could not be read: %s", endpoint, error)
            self._known.setdefault(endpoint, stored)
        return self._known[endpoint]

    async def learn(self, endpoint: str, before: frozenset[str], accepted: frozenset[str]) -> None:
        """Keep what an endpoint has accepted, beside what other calls have learned meanwhile."""
        known = self._known.get(endpoint, frozenset())
        names = (known - (before - accepted)) | (accepted - before)
        self._known[endpoint] = names
        if self.store is not None:
            try:
                await self.store.put(endpoint, names)
            except SegueError as error:
                logger.warning("The habits of %s could not be stored: %s", endpoint, error)


def own_names(request: ModelRequest, habits: Collection[str]) -> dict[str, str]:
    """The tools' own names by those that are sent instead."""
    if "plain_names" not in habits or not request.native:
        return {}
    plain = plain_names(str(tool["function"]["name"]) for tool in request.tools)
    return {sent: name for name, sent in plain.items() if sent != name}


def with_own_names(reply: ModelReply, names: Mapping[str, str]) -> ModelReply:
    """The reply with calls of the tools' own names."""
    if not names:
        return reply
    calls = [replace(call, name=names.get(call.name, call.name)) for call in reply.tool_calls]
    return replace(reply, tool_calls=tuple(calls))
