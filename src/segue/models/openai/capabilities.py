"""Capabilities of each endpoint, as found out by this process."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ChatMessage, HumanMessage

from ...core.models import ModelRequest
from ..content_parts import messages_with_parts
from .faults import Fault

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

FORMATS = ("json_schema", "json_object", "prompt")
"""Ways to ask for JSON, the strictest first; one that an endpoint refuses is not tried again."""

_ABOUT_FORMATS = (
    "response_format", "response format", "json_schema", "json_object", "json mode", "schema", "structured output",
    "grammar", "guided", "outlines",
)  # fmt: skip
_ABOUT_USAGE = ("stream_options", "include_usage")
_ABOUT_TOOLS = ("tool", "function")
_NOT_ABOUT_THE_BODY = (0, 401, 403, 408, 409, 429)


@dataclass(frozen=True)
class Capabilities:
    """What an endpoint supports.

    `format_level` indexes `FORMATS`; `usage`: it reports usage; `user_last`: the last message has to be a user's;
    `opened`: its replies begin inside a thought.
    """

    format_level: int = 0
    usage: bool = True
    user_last: bool = False
    opened: bool = False


_found: dict[str, Capabilities] = {}


def capabilities_of(endpoint: str) -> Capabilities:
    return _found.get(endpoint, Capabilities())


def learn(endpoint: str, tried: Capabilities, request: ModelRequest, fault: Fault) -> bool:
    """Remember what a fault says about the endpoint; return whether to send the request in another form now."""
    if fault.status in _NOT_ABOUT_THE_BODY:
        return False
    known = capabilities_of(endpoint)
    if tried.usage and _blames(fault, _ABOUT_USAGE):
        _found[endpoint] = replace(known, usage=False)
        return True
    if asks_for_format(request, tried) and _blames(fault, _ABOUT_FORMATS):
        _found[endpoint] = replace(known, format_level=max(known.format_level, tried.format_level + 1))
        return True
    if request.nudge and not tried.user_last and not fault.retryable:
        _found[endpoint] = replace(known, user_last=True)
        return True
    return False


def learn_thoughts(endpoint: str, opened: bool | None) -> None:
    """Remember whether replies begin inside a thought, where a reply shows it."""
    if opened is not None:
        _found[endpoint] = replace(capabilities_of(endpoint), opened=opened)


def messages_for(request: ModelRequest, capabilities: Capabilities) -> "list[BaseMessage]":
    """The request's messages, closed by a user's where the endpoint requires it."""
    closing = [HumanMessage(request.nudge)] if capabilities.user_last and request.nudge else []
    return [*map(_for_langchain, messages_with_parts(request)), *closing]


def _for_langchain(message: "BaseMessage") -> "BaseMessage":
    """A mere text of the assistant under its role: LangChain looks at each character of an `AIMessage`."""
    if not isinstance(message, AIMessage) or not isinstance(message.content, str):
        return message
    if message.tool_calls or message.invalid_tool_calls or message.additional_kwargs or message.name:
        return message
    return ChatMessage(content=message.content, role="assistant")


def blames_tools(fault: Fault) -> bool:
    return fault.status not in _NOT_ABOUT_THE_BODY and not fault.retryable and _blames(fault, _ABOUT_TOOLS)


def _blames(fault: Fault, words: tuple[str, ...]) -> bool:
    return any(word in fault.text for word in words)


def asks_for_format(request: ModelRequest, capabilities: Capabilities) -> bool:
    return request.schema is not None and not request.native and FORMATS[capabilities.format_level] != "prompt"


def response_format(request: ModelRequest, capabilities: Capabilities) -> Mapping[str, Any]:
    """The part of the request's body that asks for JSON; empty where the prompt alone does."""
    if not asks_for_format(request, capabilities):
        return {}
    if FORMATS[capabilities.format_level] == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema = {"name": request.purpose, "schema": request.schema, "strict": False}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
