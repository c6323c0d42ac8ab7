"""Digests of the definitions of agents and of tools."""

import json
import sys
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from .agents import Agent
from .tools import Tool

LENGTH = 12
"""Hexadecimal digits of a digest."""

_ELSEWHERE = {"agent_id", "description", "base_url", "api_key", "auto", "mode", "model", "mcp", "prices", "tools"}
"""What a task does not depend on, may differ between machines, or is digested in another form."""


def agent_digest(agent: Agent, names: Iterable[str], tools: Iterable[Tool]) -> str:
    """Identify what an agent's tasks depend on: its prompt and options, and the schemas and marks of its tools.

    `names` are the tool sets of Segue's own, which are the same everywhere. Keys and addresses are left out.
    """
    definition = {
        "options": agent.model_dump(exclude=_ELSEWHERE),
        "model": agent.model if isinstance(agent.model, str | None) else type(agent.model).__name__,
        "sets": sorted(names),
        "mcp": [server.model_dump(include={"name", "tools", "read_only", "needs_approval"}) for server in agent.mcp],
        "tools": sorted((_described(tool) for tool in tools), key=lambda form: form["function"]["name"]),
    }
    text = json.dumps(definition, sort_keys=True, default=lambda value: type(value).__name__)
    return sha256(text.encode()).hexdigest()[:LENGTH]


def tool_digest(tool: Tool) -> str:
    """Identify what a person approves: the function by its module and name, its schema with defaults, and its marks."""
    origin = getattr(tool, "origin", None)
    while isinstance(origin, partial):
        origin = origin.func
    source = [_module_of(origin), getattr(origin, "__qualname__", "")]
    definition = {**_described(tool), "source": source, "defaults": tool.spec.get("segue", {}).get("defaults", {})}
    return sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()[:LENGTH]


def _module_of(origin: Any) -> str:
    """The last part of the module's name; a module that is run as a script has its file's."""
    name = str(getattr(origin, "__module__", ""))
    if name == "__main__":
        main = sys.modules["__main__"]
        name = main.__spec__.name if main.__spec__ else Path(getattr(main, "__file__", "") or "").stem
    return name.rpartition(".")[2]


def _described(tool: Tool) -> dict[str, Any]:
    marks = {name: getattr(tool, name) for name in ("read_only", "idempotent", "needs_approval")}
    return {"function": tool.spec["function"], **marks}
