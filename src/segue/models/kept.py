"""What a model wants back with its calls: reasoning, signatures and blocks that only its own endpoint reads."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..core.decision import check_storable
from ..core.models import KEPT, ModelReply
from .reply import TextPieces

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

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
            parts[-1] = _joined(parts[-1], part)
        else:
            parts.append(part)
    return parts


def _continues(last: Any, part: Any) -> bool:
    if not isinstance(last, Mapping) or not isinstance(part, Mapping) or last.get("type") != part.get("type"):
        return False
    if part.get("index") is None:
        return not last.get("signature")
    return bool(last.get("index") == part["index"])


def _joined(last: Mapping[str, Any], part: Mapping[str, Any]) -> Json:
    joined = {**last, **{name: value for name, value in part.items() if value is not None}}
    for name in _TEXTS:
        if isinstance(last.get(name), str) and isinstance(part.get(name), str):
            joined[name] = last[name] + part[name]
    return joined


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
