"""Digests of agents and tools, and what differs between two definitions of an agent."""

import json
import sys
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from .agents import Agent
from .calls import Tool

LENGTH = 12
"""Hexadecimal digits of a digest."""

_ELSEWHERE = {
    "a2a",
    "agent_id",
    "allow",
    "approvals",
    "approve",
    "approvers",
    "description",
    "base_url",
    "api_key",
    "habits",
    "hidden",
    "auto",
    "model",
    "mcp",
    "not_by_asker",
    "older",
    "on_secret",
    "on_upgrade",
    "prices",
    "secret",
    "suggestions",
    "tools",
    "trusted",
    "version",
}
"""What a task does not depend on, may differ between machines, or is digested in another form."""
_OF_REMOTE = {"name", "description", "read_only", "needs_approval"}


def agent_digest(agent: Agent, names: Iterable[str], tools: Iterable[Tool]) -> str:
    """Identify what an agent's tasks depend on: its prompt, mode and options, and its tools' schemas and marks.

    `names` are the tool sets of Segue's own, which are the same everywhere. Keys and addresses are left out.
    """
    definition = {
        "options": agent.model_dump(exclude=_ELSEWHERE),
        "model": agent.model if isinstance(agent.model, str | None) else type(agent.model).__name__,
        "sets": sorted(names),
        "mcp": [server.model_dump(include={"name", "tools", "read_only", "needs_approval"}) for server in agent.mcp],
        **({"approve": agent.approve} if agent.approve else {}),
        **({"approvers": _terms_of(agent)} if any(_terms_of(agent)) else {}),
        **({"trusted": sorted(agent.trusted)} if agent.trusted else {}),
        **({"allow": [rule.model_dump() for rule in agent.allow]} if agent.allow else {}),
        **({"secret": sorted(agent.secret), "on_secret": agent.on_secret} if agent.secret else {}),
        **({"hidden": agent.hidden} if agent.hidden else {}),
        **({"a2a": [remote.model_dump(include=_OF_REMOTE) for remote in agent.a2a]} if agent.a2a else {}),
        "tools": sorted((_described(tool) for tool in tools), key=lambda form: form["function"]["name"]),
    }
    text = json.dumps(definition, sort_keys=True, default=lambda value: type(value).__name__)
    return sha256(text.encode()).hexdigest()[:LENGTH]


def agent_changes(old: Agent, new: Agent, old_tools: Iterable[Tool], new_tools: Iterable[Tool]) -> list[str]:
    """What a task depends on that differs between two definitions: fields of `Agent`, and tools by their names."""
    before, after = (agent.model_dump(exclude=_ELSEWHERE - {"model", "mcp", "a2a"}) for agent in (old, new))
    was, now = ({tool.name: _described(tool) for tool in tools} for tools in (old_tools, new_tools))
    fields = [name for name in before if before[name] != after[name]]
    return [*fields, *(f"tools.{name}" for name in {**was, **now} if was.get(name) != now.get(name))]


def tool_digest(tool: Tool) -> str:
    """Identify what a person approves: the function by its module and name, its schema with defaults, and its marks."""
    origin = getattr(tool, "origin", None)
    while isinstance(origin, partial):
        origin = origin.func
    source = [_module_of(origin), getattr(origin, "__qualname__", "")]
    definition = {**_described(tool), "source": source, "defaults": tool.spec.get("segue", {}).get("defaults", {})}
    return sha256(json.dumps(definition, sort_keys=True, default=str).encode()).hexdigest()[:LENGTH]


def _terms_of(agent: Agent) -> list[Any]:
    """What an agent says of who approves the calls of its tools."""
    return [agent.approvers, agent.approvals, sorted(agent.not_by_asker)]


def _module_of(origin: Any) -> str:
    """The last part of the module's name; a module that is run as a script has its file's."""
    name = str(getattr(origin, "__module__", ""))
    if name == "__main__":
        main = sys.modules["__main__"]
        name = main.__spec__.name if main.__spec__ else Path(getattr(main, "__file__", "") or "").stem
    return name.rpartition(".")[2]


def _described(tool: Tool) -> dict[str, Any]:
    marks = {name: getattr(tool, name) for name in ("read_only", "idempotent", "needs_approval")}
    further = {"untrusted": tool.approve == "untrusted", "trusted": tool.trusted, "content": sorted(tool.content)}
    further |= {"secret": tool.secret, "hidden": tool.hidden, "terms": tool.terms.json()}
    return {"function": tool.spec["function"], **marks, **{name: said for name, said in further.items() if said}}
