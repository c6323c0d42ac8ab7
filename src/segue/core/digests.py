"""Digests of agents and tools, and what differs between two definitions of an agent."""

import json
import sys
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from .agents import SAME_VERSION, Agent
from .calls import Tool

LENGTH = 12
"""Hexadecimal digits of a digest."""

_APART = {
    *("a2a", "allow", "approvals", "approve", "approvers", "hidden", "mcp", "model", "not_by_asker", "on_secret"),
    *("ask_user", "directories", "review_plan", "secret", "tools", "trusted", "trusted_fields"),
}
"""Fields of an agent that `agent_digest` has in a form of their own."""
_SAME = {name for name, field in Agent.model_fields.items() if SAME_VERSION in field.metadata}
_UNSEEN = {"agent_id", "api_key", "base_url", "older", "version"}
"""Fields that say which agent it is and how its model is reached, and not what it does."""
_OF_REMOTE = {"name", "description", "read_only", "needs_approval"}


def agent_digest(agent: Agent, names: Iterable[str], tools: Iterable[Tool]) -> str:
    """Identify what an agent's tasks depend on: its prompt, mode and options, and its tools' schemas and marks.

    A field of `Agent` counts unless it is marked as SAME_VERSION. `names` are the tool sets of Segue's own, which are
    the same everywhere. Keys, addresses and limits are left out.
    """
    definition = {
        "options": agent.model_dump(exclude=_SAME | _APART),
        "model": agent.model if isinstance(agent.model, str | None) else type(agent.model).__name__,
        "sets": sorted(names),
        "mcp": [server.model_dump(include={"name", "tools", "read_only", "needs_approval"}) for server in agent.mcp],
        **({"approve": agent.approve} if agent.approve else {}),
        **({"approvers": _terms_of(agent)} if any(_terms_of(agent)) else {}),
        **({} if agent.ask_user else {"ask_user": False}),
        **({"review_plan": agent.review_plan} if agent.review_plan else {}),
        **({"trusted": sorted(agent.trusted)} if agent.trusted else {}),
        **({"trusted_fields": agent.trusted_fields} if agent.trusted_fields else {}),
        **({"directories": sorted(agent.directories)} if agent.directories else {}),
        **({"allow": [rule.model_dump() for rule in agent.allow]} if agent.allow else {}),
        **({"secret": sorted(agent.secret), "on_secret": agent.on_secret} if agent.secret else {}),
        **({"hidden": agent.hidden} if agent.hidden else {}),
        **({"agents": [each.model_dump() for each in agent.agent_tools]} if agent.agent_tools else {}),
        **({"response": agent.answer_schema} if agent.answer_schema else {}),
        **({"a2a": [remote.model_dump(include=_OF_REMOTE) for remote in agent.a2a]} if agent.a2a else {}),
        "tools": sorted((_described(tool) for tool in tools), key=lambda form: form["function"]["name"]),
    }
    text = json.dumps(definition, sort_keys=True, default=lambda value: type(value).__name__)
    return sha256(text.encode()).hexdigest()[:LENGTH]


def agent_changes(old: Agent, new: Agent, old_tools: Iterable[Tool], new_tools: Iterable[Tool]) -> list[str]:
    """What a task depends on that differs between two definitions: fields of `Agent`, and tools by their names."""
    left_out = _SAME | _APART - {"a2a", "ask_user", "mcp", "model", "review_plan"}
    before, after = (agent.model_dump(exclude=left_out) for agent in (old, new))
    was, now = ({tool.name: _described(tool) for tool in tools} for tools in (old_tools, new_tools))
    fields = [name for name in before if before[name] != after[name]]
    return [*fields, *(f"tools.{name}" for name in {**was, **now} if was.get(name) != now.get(name))]


def definition_changes(old: Agent, new: Agent, old_tools: Iterable[Tool], new_tools: Iterable[Tool]) -> list[str]:
    """All that differs between two definitions, with what makes no other version, such as the budget."""
    was, now = ({tool.name: _defined(tool) for tool in tools} for tools in (old_tools, new_tools))
    left_out = _UNSEEN | _APART - {"allow", "ask_user", "model", "on_secret", "review_plan"}
    fields = [name for name in Agent.model_fields if name not in left_out]
    changed = [name for name in fields if _plain(getattr(old, name)) != _plain(getattr(new, name))]
    return [*changed, *(f"tools.{name}" for name in {**was, **now} if was.get(name) != now.get(name))]


def _plain(value: Any) -> Any:
    """A value as it is compared; an object, such as a model, by its kind."""
    return str(type(value)) if hasattr(value, "invoke") else value


def _defined(tool: Tool) -> dict[str, Any]:
    return {**_described(tool), "defaults": tool.spec.get("segue", {}).get("defaults", {})}


def tool_digest(tool: Tool) -> str:
    """Identify what a person approves: the function by its module and name, its schema with defaults, and its marks."""
    origin = getattr(tool, "origin", None)
    while isinstance(origin, partial):
        origin = origin.func
    source = [_module_of(origin), getattr(origin, "__qualname__", "")]
    definition = {**_defined(tool), "source": source}
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
    further |= {"trusted_fields": sorted(tool.trusted_fields), "directory": tool.directory}
    further |= {"secret": tool.secret, "hidden": tool.hidden, "terms": tool.terms.json()}
    return {"function": tool.spec["function"], **marks, **{name: said for name, said in further.items() if said}}
