"""What each endpoint takes: found out once, and remembered while the process lives."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage

from ...core.ports import ModelRequest
from .faults import Fault

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

LADDER = ("json_schema", "json_object", "prompt")
"""Ways to ask for JSON, the strictest first; what an endpoint refuses is not tried on it again."""

_ABOUT_FORMATS = (
    "response_format", "response format", "json_schema", "json_object", "json mode", "schema", "structured output",
    "grammar", "guided", "outlines",
)  # fmt: skip
_ABOUT_USAGE = ("stream_options", "include_usage")
_ABOUT_TOOLS = ("tool", "function")
_NOT_ABOUT_THE_BODY = (0, 401, 403, 408, 409, 429)


@dataclass(frozen=True)
class Quirks:
    """What an endpoint was found to take: which rung, being asked for usage, an assistant's message at the end."""

    rung: int = 0
    usage: bool = True
    nudged: bool = False


_found: dict[str, Quirks] = {}


def quirks_of(endpoint: str) -> Quirks:
    return _found.get(endpoint, Quirks())


def forget_endpoints() -> None:
    """Start finding out anew."""
    _found.clear()


def learn(endpoint: str, tried: Quirks, request: ModelRequest, fault: Fault) -> bool:
    """Remember what a fault says about the endpoint; whether the request is worth making in another form now."""
    if fault.status in _NOT_ABOUT_THE_BODY:
        return False
    known = quirks_of(endpoint)
    if tried.usage and _blames(fault, _ABOUT_USAGE):
        _found[endpoint] = replace(known, usage=False)
        return True
    if wants_format(request, tried) and _blames(fault, _ABOUT_FORMATS):
        _found[endpoint] = replace(known, rung=max(known.rung, tried.rung + 1))
        return True
    if request.nudge and not tried.nudged and not fault.again:
        _found[endpoint] = replace(known, nudged=True)
        return True
    return False


def messages_for(request: ModelRequest, quirks: Quirks) -> "list[BaseMessage]":
    """The request's messages, closed by a user's where the endpoint does not go on from an assistant's."""
    closing = [HumanMessage(request.nudge)] if quirks.nudged and request.nudge else []
    return [*request.messages, *closing]


def blames_tools(fault: Fault) -> bool:
    return fault.status not in _NOT_ABOUT_THE_BODY and not fault.again and _blames(fault, _ABOUT_TOOLS)


def _blames(fault: Fault, words: tuple[str, ...]) -> bool:
    return any(word in fault.said for word in words)


def wants_format(request: ModelRequest, quirks: Quirks) -> bool:
    return request.schema is not None and not request.native and LADDER[quirks.rung] != "prompt"


def response_format(request: ModelRequest, quirks: Quirks) -> Mapping[str, Any]:
    """The part of the request's body that asks for JSON; empty where the prompt alone does."""
    if not wants_format(request, quirks):
        return {}
    if LADDER[quirks.rung] == "json_object":
        return {"response_format": {"type": "json_object"}}
    schema = {"name": request.purpose, "schema": request.schema, "strict": False}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
