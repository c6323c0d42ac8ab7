"""The chat-completion format on the wire.

A missing field is empty; a field of the wrong type makes the whole document invalid.
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, PlainValidator, ValidationError

from ...core.clause import Clause
from .faults import AttemptFailed, Fault

MAX_TOKENS = 10**9
"""The largest token count that is believed."""


def _text(value: object) -> str:
    """A string; pydantic's own refuses lone surrogates, which may be half of a pair."""
    if value is not None and not isinstance(value, str):
        raise ValueError("Input should be a valid string")
    return value or ""


def _reasoning(value: object) -> str:
    """Reasoning, which has no standard form: text, or parts that hold some; anything else is passed over."""
    if isinstance(value, list):
        return "".join(_reasoning(part) for part in value)
    if isinstance(value, dict):
        return _reasoning(value.get("text"))
    return value if isinstance(value, str) else ""


def _parts(value: object) -> object:
    """A message's text as a list of parts, which is how some endpoints send it."""
    if value is None or isinstance(value, str):
        return [{"text": value}]
    return value


def _as_json(value: object) -> str:
    """Arguments as text; some endpoints send them as an object."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else _text(value)


def _count(value: object) -> int:
    if value is None:
        return 0
    if not isinstance(value, int | float):
        raise ValueError("Input should be a number")
    return int(min(max(value, 0), MAX_TOKENS))


def _details(value: object) -> object:
    return value if isinstance(value, dict) else {}


def _or_empty(value: Any) -> Any:
    return () if value is None else value


Text = Annotated[str, PlainValidator(_text)]
Reasoning = Annotated[str, PlainValidator(_reasoning)]
Arguments = Annotated[str, PlainValidator(_as_json)]
Count = Annotated[int, PlainValidator(_count)]
OrEmpty = BeforeValidator(_or_empty)


class Details(BaseModel):
    """Which of the prompt's tokens the endpoint had read before."""

    cached_tokens: Count = 0


class Usage(BaseModel):
    """Tokens, as counted by the endpoint."""

    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: Annotated[Details, BeforeValidator(_details)] = Details()


class Function(BaseModel):
    """A function call's name and arguments, or a piece of them."""

    name: Text = ""
    arguments: Arguments = ""


class ToolCall(BaseModel):
    """A tool call, or a piece of one."""

    index: int | None = None
    id: Text = ""
    function: Function | None = None


class Part(BaseModel):
    """A part of a message's content."""

    text: Text = ""
    thinking: Reasoning = ""


class Message(BaseModel):
    """A message, or the delta of one."""

    content: Annotated[tuple[Part, ...], BeforeValidator(_parts)] = ()
    refusal: Text = ""
    reasoning: Reasoning = ""
    reasoning_content: Reasoning = ""
    tool_calls: Annotated[tuple[ToolCall, ...], OrEmpty] = ()

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content)

    @property
    def reasoning_text(self) -> str:
        """The reasoning; some endpoints send it under both names."""
        return "".join(part.thinking for part in self.content) + (self.reasoning_content or self.reasoning)


class Choice(BaseModel):
    """One answer; `delta` in a stream, `message` in a whole reply."""

    delta: Message | None = None
    message: Message | None = None
    finish_reason: Text = ""


class Completion(BaseModel):
    """A chat completion, or one chunk of it."""

    error: Any = None
    choices: Annotated[tuple[Choice, ...], OrEmpty] = ()
    usage: Usage | None = None


def read_completion(document: bytes) -> Completion:
    """Read a body, or the data of one server-sent event.

    Raises:
        AttemptFailed: it is not valid JSON, or not a chat completion.
    """
    try:
        return Completion.model_validate(json.loads(document))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        why = f"{where}: {first['msg']}"
        raise AttemptFailed(Fault(Clause("sent an invalid reply ({why})", why=why))) from None
    except (ValueError, RecursionError):
        raise AttemptFailed(Fault(Clause("sent a reply that is not valid JSON"))) from None
