"""Limits on the size of what goes into a prompt."""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from segue.core.attachments import ATTACHMENTS
from segue.core.calls import CallResult
from segue.core.prompt_size import tokens as tokens

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
