"""A model request as text that a person can read and compare, and its digest."""

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..core.agents import Agent
from ..core.attachments import PARTS, attached
from ..core.json_schema import plain_specs
from ..core.models import ModelRequest
from ..core.prompt_size import Renderings

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

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
    return f"\n[tool {plain['function']['name']}]\n{indented(plain['function'])}"


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
