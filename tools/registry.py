"""Named sets of tools for agents files, and policies of tools."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from segue.core.agents import Agent, load_attribute
from segue.core.calls import Tool
from segue.core.errors import ConfigurationError, UnknownTool, listed
from segue.core.provenance import Hiding
from segue.core.schedules import ApprovalSettings

from .adapters.a2a import RemoteAgentTool
from .adapters.agents import LocalAgentTool
from .adapters.functions import bind_function
from .adapters.mcp import McpTool
from .bound_tool import BadArguments, BoundTool, Marks, tool

# Tools under the policies of their agent: who approves their calls, and how far their results are trusted.


def under_policies(agent: Agent, tools: Mapping[str, Tool], settings: ApprovalSettings) -> Mapping[str, Tool]:
    """The tools with what their agent says of approval and trust.

    Raises:
        ConfigurationError: it names a tool that it does not have.
    """
    named = agent.approve if isinstance(agent.approve, dict) else {}
    waiting = agent.mcp and not any(isinstance(tool, McpTool) for tool in tools.values())
    terms = (*agent.approvers, *agent.approvals, *agent.not_by_asker)
    labels = (*agent.trusted, *agent.trusted_fields, *agent.directories, *agent.secret, *agent.hidden)
    for name in (*named, *terms, *labels, *(rule.tool for rule in agent.allow)):
        if name not in tools and not waiting and not agent.a2a:
            raise ConfigurationError(
                "The agent {agent_id} has no tool {tool}, which is named in its `approve`, `approvers`, "
                "`approvals`, `not_by_asker`, `trusted`, `trusted_fields`, `directories`, `secret`, `hidden` or "
                "`allow`; use one of: {known}.",
                agent_id=agent.agent_id,
                tool=name,
                known=listed(tools),
            )
    _check_rules(agent, tools)
    return {name: _marked(agent, tool, settings) for name, tool in tools.items()}


def _check_rules(agent: Agent, tools: Mapping[str, Tool]) -> None:
    for rule in agent.allow:
        tool = tools.get(rule.tool)
        known = tool.spec["function"].get("parameters", {}).get("properties", {}) if tool else {rule.argument}
        if rule.argument not in known:
            raise ConfigurationError(
                "The agent {agent_id} allows values of an argument {argument} that its tool {tool} does not have; use "
                "one of: {known}.",
                agent_id=agent.agent_id,
                argument=rule.argument,
                tool=rule.tool,
                known=listed(known),
            )


def _marked(agent: Agent, tool: Tool, settings: ApprovalSettings) -> Tool:
    if not isinstance(tool, BoundTool | McpTool | RemoteAgentTool | LocalAgentTool):
        return tool
    marks = tool.marks
    if isinstance(agent.approve, dict):
        approve = agent.approve.get(tool.name, marks.approve)
    else:
        approve = marks.approve if marks.read_only or marks.needs_approval else marks.approve or agent.approve
    changed = replace(
        marks,
        approve=approve,
        trusted=marks.trusted or tool.name in agent.trusted,
        trusted_fields=(*marks.trusted_fields, *agent.trusted_fields.get(tool.name, ())),
        directory=marks.directory or tool.name in agent.directories,
        secret=marks.secret or tool.name in agent.secret,
        hidden=_hidden(agent, tool.name) or marks.hidden,
        **_approval_marks(agent, tool.name, marks, settings),
    )
    if tool.name in {*agent.approvers, *agent.approvals, *agent.not_by_asker}:
        changed = changed.with_approval()
    _ = changed.terms  # a role or number that cannot be used shows now
    if changed.directory and not _is_directory(tool, changed):
        raise ConfigurationError(
            "The tool {tool} is a directory, which Segue reads by itself: mark it read_only and trusted or with "
            "trusted_fields, and let it need neither approval nor arguments.",
            tool=tool.name,
        )
    return tool if changed == marks else replace(tool, marks=changed)


def _is_directory(tool: Tool, marks: Marks) -> bool:
    """Whether Segue may read a tool by itself, and learns anything from it."""
    asks = marks.needs_approval or marks.approve not in (None, "never")
    needs = tool.spec["function"].get("parameters", {}).get("required", ())
    return marks.read_only and not (asks or needs) and (marks.trusted or bool(marks.trusted_fields))


def _hidden(agent: Agent, name: str) -> Hiding:
    return agent.hidden.get(name, False) if isinstance(agent.hidden, dict) else name in agent.hidden


def _approval_marks(agent: Agent, name: str, marks: Marks, settings: ApprovalSettings) -> dict[str, Any]:
    """Who approves the calls of a tool: what its agent says of it, else the tool itself, else the settings."""
    approvals = settings.approvals if marks.approvals is None else marks.approvals
    not_by_asker = settings.not_by_asker or None if marks.not_by_asker is None else marks.not_by_asker
    return {
        "approvers": tuple(agent.approvers.get(name, marks.approvers or settings.approvers)),
        "approvals": agent.approvals.get(name, approvals),
        "not_by_asker": name in agent.not_by_asker or not_by_asker,
    }


# Named sets of tools, so that an agent in a TOML file can ask for `travel`.

__all__ = ["BadArguments", "BoundTool", "Marks", "ToolSets", "as_tool", "tool"]


def as_tool(source: Any) -> BoundTool:
    """Turn a LangChain tool or a typed function into a `BoundTool`.

    Raises:
        ConfigurationError: it is neither, or its parameters have no JSON schema.
    """
    from langchain_core.tools import BaseTool

    from .adapters.functions import bind_langchain_tool

    if isinstance(source, BoundTool):
        return source
    if isinstance(source, BaseTool):
        return bind_langchain_tool(source)
    if callable(source) and not isinstance(source, type):
        return bind_function(source)
    raise ConfigurationError("{source} is not a tool: pass a LangChain tool or a typed function.", source=repr(source))


class ToolSets:
    """Tools by the name of their set; a set that is a function is made when it is asked for, and may change.

    The others are bound once, for all agents of the process.
    """

    def __init__(self, sets: Mapping[str, Iterable[Any] | Callable[[], Iterable[Any]]]) -> None:
        self._sets = {name: members if callable(members) else tuple(members) for name, members in sets.items()}
        self._bound: dict[str, tuple[BoundTool, ...]] = {}

    @property
    def names(self) -> list[str]:
        return sorted(self._sets)

    def may_change(self, requested: Iterable[Any]) -> bool:
        """Whether a later `resolve` of these may give other tools."""
        return any(isinstance(item, str) and callable(self._sets.get(item)) for item in requested)

    def resolve(self, requested: Iterable[Any]) -> dict[str, BoundTool]:
        """The tools of an agent by name.

        Raises:
            UnknownTool: a string is no set's or tool's name.
            ConfigurationError: two tools have one name.
        """
        found: dict[str, BoundTool] = {}
        for item in requested:
            for source in self._members(item):
                bound = as_tool(source)
                if bound.name in found and found[bound.name].origin != bound.origin:
                    raise ConfigurationError("Two tools are called {name}: rename one.", name=bound.name)
                found[bound.name] = bound
        return found

    def _members(self, item: Any) -> tuple[Any, ...]:
        if not isinstance(item, str):
            return (item,)
        if item in self._sets:
            members = self._sets[item]
            if callable(members):
                return tuple(members())
            if item not in self._bound:
                self._bound[item] = tuple(map(as_tool, members))
            return self._bound[item]
        if ":" in item:
            loaded = load_attribute(item)
            return tuple(loaded) if isinstance(loaded, (list, tuple)) else (loaded,)
        raise UnknownTool(item, self.names)
