"""A request as messages that are sent, as data and as text; and what of a reply is sent again."""

import json
import logging
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..core.agents import Agent
from ..core.calls import UNKNOWN_OUTCOME
from ..core.decision import check_storable
from ..core.errors import ModelError, ModelRefused
from ..core.json import plain_specs
from ..core.message import PARTS, Attachment, attached
from ..core.models import KEPT, Model, ModelReply, ModelRequest, Renderings, prompt_tokens, tokens
from ..prompts.catalogue import template
from .reply import TextPieces

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

logger = logging.getLogger(__name__)

# The messages as they go out to any model: files as parts, names in the API's alphabet, each id once.

_NAME = re.compile("[a-zA-Z0-9_-]{1,64}")


def outgoing_messages(request: ModelRequest, origin: str) -> "list[BaseMessage]":
    """The request's messages for the model of that origin; what another model wants back is left out."""
    named = {str(tool["function"]["name"]) for tool in request.tools} if request.native else set()
    parts = [_with_parts(message, request.files) for message in request.messages]
    return [_own(message, origin) for message in _with_unique_ids(parts, named)]


def plain_name(name: str) -> str:
    """The name of a tool in the API's alphabet."""
    if _NAME.fullmatch(name):
        return name
    plain = re.sub("[^a-zA-Z0-9_-]", "_", name)[:64]
    return plain if plain.strip("_-") else "tool"


def _with_unique_ids(messages: "Sequence[BaseMessage]", named: Collection[str]) -> "Iterator[BaseMessage]":
    """The messages with ids that occur once, in a call and its result alike.

    A provider's ids are unique within a reply only. The names of calls are those that are offered, or plain.
    """
    used: set[str] = set()
    waiting: dict[str, list[str]] = {}
    """The new ids of the last message's calls that have no result yet, by the old ones."""
    for message in messages:
        if message.type == "ai" and (calls := getattr(message, "tool_calls", None)):
            waiting = {}
            sent = []
            for call in calls:
                new, number = call["id"] or "call", 1
                while new in used:
                    number += 1
                    new = f"{call['id'] or 'call'}_{number}"
                used.add(new)
                waiting.setdefault(call["id"] or "", []).append(new)
                name = call["name"] if call["name"] in named else plain_name(call["name"])
                same = new == call["id"] and name == call["name"]
                sent.append(call if same else {**call, "id": new, "name": name})
            yield message if sent == calls else message.model_copy(update={"tool_calls": sent})
        elif message.type == "tool":
            old = str(getattr(message, "tool_call_id", ""))
            new = waiting[old].pop(0) if waiting.get(old) else old
            yield message if new == old else message.model_copy(update={"tool_call_id": new})
        else:
            yield message


def _own(message: "BaseMessage", origin: str) -> "BaseMessage":
    """The message without what another model wants back."""
    kept = message.additional_kwargs.get(KEPT)
    if kept is None or (isinstance(kept, Mapping) and kept.get("of") == origin):
        return message
    rest = {name: value for name, value in message.additional_kwargs.items() if name != KEPT}
    return message.model_copy(update={"additional_kwargs": rest})


def _with_parts(message: "BaseMessage", contents: Mapping[str, bytes]) -> "BaseMessage":
    files = attached(message, PARTS)
    if not files:
        return message
    text = {"type": "text", "text": message.text}
    parts = [text, *(_part(file, contents[file.digest]) for file in files)]
    return message.model_copy(update={"content": parts, "additional_kwargs": {}})


def _part(file: Attachment, content: bytes) -> dict[str, Any]:
    if file.url:
        return {"type": "image", "url": file.url}
    data = {"base64": b64encode(content).decode(), "mime_type": file.media_type}
    if file.kind == "image":
        return {"type": "image", **data}
    return {"type": "file", **data, "filename": file.name}


# A request with fewer tokens, where the endpoint refuses a longer one.

_SHORTEST = 200
"""Characters that are left of a text at least."""
_LEFT_OUT = "\n… [{n} characters are left out] …\n"


def shortened(request: ModelRequest, most_tokens: int, *, system: bool = True) -> ModelRequest:
    """The request within so many tokens, as far as that is possible.

    Of a conversation the oldest messages behind its first one are left out, unless they belong to calls. Then the
    longest texts are shortened in their middle; those of the system only where `system` says so.
    """
    messages = [*request.messages]
    first = next((place + 1 for place, message in enumerate(messages) if message.type != "system"), len(messages))
    calls = any(message.type == "tool" or getattr(message, "tool_calls", ()) for message in messages)
    excess = prompt_tokens(request) - most_tokens
    while excess > 0 and not calls and len(messages) > first + 2:
        excess -= sum(tokens(message.text) for message in messages[first : first + 2])
        del messages[first : first + 2]
    places = [place for place, message in enumerate(messages) if system or message.type != "system"]
    while excess > 0 and places:
        place = max(places, key=lambda at: len(messages[at].text))
        cut = _cut(messages[place], excess)
        if cut is messages[place]:
            break
        excess -= tokens(messages[place].text) - tokens(cut.text)
        messages[place] = cut
    return request if messages == [*request.messages] else replace(request, messages=messages)


def _cut(message: "BaseMessage", excess: int) -> "BaseMessage":
    """The message with fewer tokens, most of what is left from its end; the same where its text is short."""
    text = message.text
    kept = max(_SHORTEST, len(text) * max(0, tokens(text) - excess) // max(1, tokens(text)) - len(_LEFT_OUT))
    if not isinstance(message.content, str) or kept + len(_LEFT_OUT) >= len(text):
        return message
    end = len(text) - (kept - kept // 3)
    note = _LEFT_OUT.format(n=end - kept // 3)
    return message.model_copy(update={"content": f"{text[: kept // 3]}{note}{text[end:]}"})


async def whole_reply(model: Model, request: ModelRequest) -> ModelReply:
    """A model's reply outside a graph; a prompt that is too long, or may be, is sent again with half of its tokens."""
    try:
        return await _whole(model, request)
    except ModelRefused as error:
        shorter = shortened(request, prompt_tokens(request) // 2, system=error.is_too_long)
        if not error.may_be_too_long or shorter is request:
            raise
        logger.warning("%s: its prompt may be too long, and is sent again with half of its tokens.", error)
    return await _whole(model, shorter)


async def _whole(model: Model, request: ModelRequest) -> ModelReply:
    async with aclosing(model.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, ModelReply):
                return piece
    raise ModelError(f"{model.name} did not reply.")


# A model request as text that a person can read and compare, and its digest.

_SETTINGS = ("temperature", "max_tokens", "reasoning_effort")
_ROLES = {"human": "user", "ai": "assistant"}


def request_text(request: ModelRequest, model: str, agent: Agent, renderings: Renderings | None = None) -> str:
    """Everything that decides the reply: the model with its settings, the messages, the tools and the schema.

    Keys and addresses are no part of it, and of `extra_body`, which may hold secrets, only a digest is.
    """
    return "\n".join(_lines(request, model, agent, renderings or Renderings()))


def digest(text: str) -> str:
    """The SHA-256 of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _lines(request: ModelRequest, model: str, agent: Agent, renderings: Renderings) -> Iterator[str]:
    yield f"model: {model}"
    for name in _SETTINGS:
        if name not in request.settings and (value := getattr(agent, name)) is not None:
            yield f"{name}: {value}"
    if agent.extra_body:
        yield f"extra_body: sha256 {digest(_json(agent.extra_body))[:16]}"
    if request.seed is not None:
        yield f"seed: {request.seed}"
    for name, value in request.settings.items():
        yield f"{name}: {_json(value)}"
    yield f"purpose: {request.purpose}{', native tools' if request.native else ''}"
    if request.tool_choice:
        yield f"tool_choice: {request.tool_choice}"
    for message in request.messages:
        yield from _message(message)
    if request.nudge:
        yield from ("", "[nudge]", request.nudge)
    yield from renderings.each(_tool, request.tools)
    if request.schema is not None:
        yield from ("", "[schema]", _json(request.schema))


def _tool(spec: Mapping[str, Any]) -> str:
    (plain,) = plain_specs([spec])
    return _tool_text(_json(plain["function"]))


@lru_cache(maxsize=256)
def _tool_text(function: str) -> str:
    given = json.loads(function)
    return f"\n[tool {given['name']}]\n{indented(given)}"


def _message(message: "BaseMessage") -> Iterator[str]:
    call_id = getattr(message, "tool_call_id", "")
    yield from ("", f"[{' '.join(filter(None, (_ROLES.get(message.type, message.type), call_id)))}]")
    yield message.content if isinstance(message.content, str) else _json(message.content)
    for file in attached(message, PARTS):
        yield f"[{file.media_type} {file.digest}]"
    for call in getattr(message, "tool_calls", ()):
        yield f"{call['id'] or ''} {call['name']} {_json(call['args'])}".lstrip()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def indented(value: Any) -> str:
    """JSON with a line for each entry."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


# A request as data: what the user asks for, what was called so far, and what came of it.

_STATE_HEADINGS = tuple(template("native_state", language).partition("\n")[0] for language in ("en", "zh"))
_STATE = re.compile(r'\{"(?:global|conversation)": |\[\{"step": "')
_MEMORY = re.compile(r"(?:#\d+ CALL_TOOL |called )([^:]*?)(?: ok| error)?:")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class PastCall:
    """A tool call and its result; `title` is what a plan calls it. `unknown`: it may or may not have taken effect."""

    name: str
    arguments: Mapping[str, Any]
    value: Any = None
    error: str = ""
    title: str = ""
    unknown: bool = False


@dataclass(frozen=True)
class Transcript:
    """What the messages of a request say.

    `conversation` are the earlier messages as {"role", "content"}; `forgotten` names the calls that were made and whose
    results are no longer part of the prompt; `prompt` is the system's text without the state in it.
    """

    objective: str
    conversation: tuple[Mapping[str, Any], ...] = ()
    made: tuple[PastCall, ...] = ()
    forgotten: tuple[str, ...] = ()
    error: str = ""
    prompt: str = ""

    @property
    def instructions(self) -> str:
        """The last heading or line of the system's text, which is in the language of the task."""
        return (_HEADING.findall(self.prompt) or self.prompt.splitlines() or [""])[-1]


def read_transcript(request: ModelRequest) -> Transcript:
    """Read the messages of a decision, a plan or an answer, in either protocol."""
    messages = list(request.messages)
    prompt = "\n".join(message.text for message in messages if message.type == "system")
    spoken = [message for message in messages if message.type != "system"]
    state = _state_in(prompt)
    if closing := _closing_state(spoken):
        earlier = {} if request.native else {"context": {**closing.get("context", {}), **(state or {})}}
        state, prompt = {**closing, **earlier}, spoken.pop().text if request.native else prompt
    if isinstance(state, list):
        return Transcript(
            next((message.text for message in reversed(spoken) if message.type == "human"), ""),
            made=tuple(_outcome(entry) for entry in state),
            prompt=prompt,
        )
    if not isinstance(state, dict) or request.native:
        return _of_messages(spoken, state or {}, prompt)
    return _of_records(spoken, state, prompt)


def _closing_state(spoken: Sequence["BaseMessage"]) -> dict[str, Any]:
    """The state in the last message, where it is there and not in the system's."""
    if len(spoken) < 2 or not spoken[-1].text.startswith(_STATE_HEADINGS):
        return {}
    found = _state_in(spoken[-1].text)
    return found if isinstance(found, dict) else {}


def _state_in(text: str) -> Any:
    """The last state in a text, as JSON; None if there is none."""
    for hit in reversed(list(_STATE.finditer(text))):
        try:
            return _DECODER.raw_decode(text, hit.start())[0]
        except ValueError:
            continue
    return None


def _of_messages(messages: Sequence["BaseMessage"], state: Mapping[str, Any], prompt: str) -> Transcript:
    """The thread's own messages, ending with the user's and the calls that it led to."""
    last = max((place for place, message in enumerate(messages) if message.type == "human"), default=-1)
    roles = {"human": "user", "ai": "assistant"}
    past = tuple({"role": roles.get(m.type, m.type), "content": m.text} for m in messages[: max(last, 0)])
    context = state.get("context", {})
    return Transcript(
        messages[last].text if last >= 0 else "",
        past,
        tuple(_made_in(messages[last + 1 :])),
        forgotten=_forgotten(context.get("memory", ())),
        prompt=prompt,
    )


def _made_in(messages: Iterable["BaseMessage"]) -> Iterable[PastCall]:
    """The calls with their results; a provider's ids are unique within a message only."""
    calls: dict[str, Any] = {}
    for message in messages:
        if message.type == "ai":
            calls = {call["id"]: call for call in getattr(message, "tool_calls", ())}
        elif call := calls.get(getattr(message, "tool_call_id", "")):
            result = _result(message.text, getattr(message, "status", "") == "error")
            yield PastCall(call["name"], call["args"], unknown=UNKNOWN_OUTCOME in message.additional_kwargs, **result)


def _result(text: str, failed: bool) -> dict[str, Any]:
    if failed:
        return {"error": text or "?"}
    try:
        return {"value": json.loads(text)}
    except ValueError:
        return {"value": text}


def _of_records(messages: Sequence["BaseMessage"], state: Mapping[str, Any], prompt: str) -> Transcript:
    """The user's request, and a JSON record for each past round or the results of a plan."""
    context = state.get("context", state)
    records = [_object(message.text) for message in messages if message.type == "ai"]
    outcomes = [entry["function"] for record in records for entry in record.get("result", ())]
    error = records[-1].get("error_log") if records else state.get("problem")
    first = next((message.text for message in messages if message.type == "human"), "")
    return Transcript(
        context.get("objective") or first,
        tuple(context.get("conversation", ())),
        tuple(_outcome(entry) for entry in (*outcomes, *state.get("results", ()))),
        _forgotten(context.get("memory", ())),
        str(error or ""),
        prompt,
    )


def _forgotten(memory: Iterable[str]) -> tuple[str, ...]:
    """The calls of this task in lines of memory: those behind the last message."""
    names: list[str] = []
    for line in memory:
        if hit := _MEMORY.match(line):
            names += hit[1].strip().split(", ")
        elif line.startswith(("user: ", "assistant: ")):
            names.clear()
    return tuple(names)


def _outcome(entry: Mapping[str, Any]) -> PastCall:
    result, arguments = entry.get("result") or {}, _object(entry.get("arguments"))
    return PastCall(
        name=entry.get("name") or entry.get("tool") or "",
        arguments=arguments,
        value=result.get("success"),
        error=str(result["error"] or "?") if "error" in result else "",
        title=str(entry.get("step", "")) if "tool" in entry else "",
        unknown=UNKNOWN_OUTCOME in result,
    )


def _object(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            return {}
    return dict(given) if isinstance(given, Mapping) else {}


# What a model wants back with its calls: reasoning, signatures and blocks that only its own endpoint reads.

Json = dict[str, Any]

MOST_CHARS = 1_000_000
"""Characters, as JSON, that are kept of one reply; nothing of a larger one."""

_OF_MESSAGE = ("reasoning_details", "thinking_blocks", "extra_content")
_OF_CALL = ("extra_content", "thought_signature", "provider_specific_fields")
_TEXTS = ("text", "thinking", "summary", "data")
"""Fields that arrive in pieces."""
_PLAIN_BLOCKS = ("text", "tool_use", "tool_call", "tool_call_chunk", "function_call", "input_json_delta")
_PLAIN_FIELDS = ("tool_calls", "function_call", "refusal")


class KeptFields:
    """What chat completions hold beside text and calls, put together piece by piece."""

    def __init__(self) -> None:
        self._reasoning = TextPieces()
        self._message: Json = {}
        self._calls: dict[object, Json] = {}
        """By the call's id, else by its place in the message."""
        self._at: dict[object, str] = {}

    def add(self, reasoning: str, fields: Mapping[str, Any], whole: bool) -> None:
        """Add a message's fields, or those of a delta."""
        self._reasoning.add(reasoning)
        for name in _OF_MESSAGE:
            if value := fields.get(name):
                self._message[name] = value if whole else _merged(self._message.get(name), value)

    def add_call(self, place: object, call_id: str, fields: Mapping[str, Any]) -> None:
        """Add the fields of a call, or of a piece of one."""
        if call_id:
            self._at[place] = call_id
        call = self._calls.setdefault(self._at.get(place, place), {})
        for name in _OF_CALL:
            if value := fields.get(name):
                call[name] = _merged(call.get(name), value)

    def of(self, reply: ModelReply, origin: str) -> Json:
        """What is kept of a reply with calls: {"of", "message", "calls"}; empty where there is nothing."""
        reasoning = {"reasoning_content": self._reasoning.text} if self._reasoning.text else {}
        calls = [*self._calls.values()]
        if len(calls) != len(reply.tool_calls) or not any(calls):
            calls = []
        found: Json = {"message": {**reasoning, **self._message}, "calls": calls}
        if not reply.tool_calls or not any(found.values()):
            return {}
        return _storable({"of": origin, **found})


def _merged(before: Any, piece: Any) -> Any:
    """A value with a further piece: texts grow, and so do the parts of a list that have one index."""
    if isinstance(before, Mapping) and isinstance(piece, Mapping):
        return {**before, **{k: _merged(before.get(k), v) for k, v in piece.items() if v is not None}}
    if not isinstance(before, list) or not isinstance(piece, list):
        return piece
    parts = [*before]
    for part in piece:
        if parts and _continues(parts[-1], part):
            last = parts[-1]
            parts[-1] = {**last, **{name: value for name, value in part.items() if value is not None}}
            for name in _TEXTS:
                if isinstance(last.get(name), str) and isinstance(part.get(name), str):
                    parts[-1][name] = last[name] + part[name]
        else:
            parts.append(part)
    return parts


def _continues(last: Any, part: Any) -> bool:
    if not isinstance(last, Mapping) or not isinstance(part, Mapping) or last.get("type") != part.get("type"):
        return False
    if part.get("index") is None:
        return not last.get("signature")
    return bool(last.get("index") == part["index"])


def _storable(kept: Json) -> Json:
    """The same as plain JSON; empty where it is none, or too large."""
    try:
        text = json.dumps(kept, ensure_ascii=False)
        plain: Json = json.loads(text)
        check_storable(plain)
    except (TypeError, ValueError, RecursionError):
        return {}
    return plain if len(text) <= MOST_CHARS else {}


def kept_of_messages(messages: "Sequence[AIMessage]", reply: ModelReply, origin: str) -> Json:
    """What is kept of a chat model's reply, which came in one message or in chunks: its blocks and further fields."""
    from langchain_core.messages import AIMessageChunk, message_chunk_to_message
    from langchain_core.messages.ai import add_ai_message_chunks

    if not reply.tool_calls or not any(map(_holds_more, messages)):
        return {}
    chunks = [message for message in messages if isinstance(message, AIMessageChunk)]
    message: Any = messages[-1]
    if len(chunks) > 1:
        try:
            message = message_chunk_to_message(add_ai_message_chunks(*chunks))
        except (TypeError, ValueError, KeyError):  # chunks that LangChain itself cannot join
            return {}
    found: Json = {
        "content": message.content if isinstance(message.content, list) else None,
        "fields": {k: v for k, v in message.additional_kwargs.items() if k not in _PLAIN_FIELDS},
        "metadata": {k: v for k, v in message.response_metadata.items() if k in ("output_version", "model_provider")},
        "ids": [call.id for call in reply.tool_calls],
    }
    return _storable({"of": origin, **found})


def _holds_more(message: "AIMessage") -> bool:
    if any(name not in _PLAIN_FIELDS for name in message.additional_kwargs):
        return True
    blocks = message.content if isinstance(message.content, list) else []
    return any(isinstance(block, dict) and block.get("type") not in _PLAIN_BLOCKS for block in blocks)


def restored(message: "BaseMessage") -> "BaseMessage":
    """A message as the chat model wrote it, with the ids that its calls have now."""
    kept = message.additional_kwargs.get(KEPT)
    if not isinstance(kept, Mapping) or not isinstance(kept.get("fields"), Mapping):
        return message
    calls = [call["id"] for call in getattr(message, "tool_calls", ())]
    before = [str(call_id) for call_id in kept.get("ids") or ()]
    ids = dict(zip(before, calls, strict=True)) if len(calls) == len(before) else {}
    ids = {old: new for old, new in ids.items() if old != new}
    content = kept["content"] if isinstance(kept.get("content"), list) else message.content
    metadata = kept.get("metadata") or {}
    update = {"content": content, "additional_kwargs": kept["fields"], "response_metadata": metadata}
    return message.model_copy(update=_replaced(update, ids) if ids else update)


def _replaced(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return ids.get(value, value)
    if isinstance(value, Mapping):
        return {ids.get(name, name): _replaced(inner, ids) for name, inner in value.items()}
    return [_replaced(inner, ids) for inner in value] if isinstance(value, list) else value


def with_kept(body: Json, messages: "Sequence[BaseMessage]") -> Json:
    """The body of a chat completion with what was kept of each message's reply."""
    sent = body.get("messages", [])
    if len(sent) != len(messages) or not any(KEPT in message.additional_kwargs for message in messages):
        return body
    kept = [message.additional_kwargs.get(KEPT) for message in messages]
    return {**body, "messages": [_with(form, found) for form, found in zip(sent, kept, strict=True)]}


def _with(form: Json, kept: Any) -> Json:
    if not isinstance(kept, Mapping) or not isinstance(kept.get("message"), Mapping):
        return form
    message = kept["message"]
    form = {**form, **{name: message[name] for name in ("reasoning_content", *_OF_MESSAGE) if name in message}}
    calls, fields = form.get("tool_calls") or [], kept.get("calls") or []
    if len(calls) == len(fields):
        form["tool_calls"] = [{**call, **_of_call(more)} for call, more in zip(calls, fields, strict=True)]
    return form


def _of_call(fields: Any) -> Json:
    return {name: fields[name] for name in _OF_CALL if name in fields} if isinstance(fields, Mapping) else {}
