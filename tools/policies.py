"""Tools under the policies of their agent: who approves their calls, and how far their results are trusted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from segue.core.agents import Agent
from segue.core.deadlines import ApprovalSettings
from segue.core.errors import ConfigurationError, listed
from segue.core.provenance import Hiding
from segue.core.tools import Tool

from .adapters.a2a import RemoteAgentTool
from .adapters.mcp import McpTool
from .bound_tool import BoundTool, Marks


def under_policies(agent: Agent, tools: Mapping[str, Tool], settings: ApprovalSettings) -> Mapping[str, Tool]:
    """The tools with what their agent says of approval and trust.

    Raises:
        ConfigurationError: it names a tool that it does not have.
    """
    named = agent.approve if isinstance(agent.approve, dict) else {}
    waiting = agent.mcp and not any(isinstance(tool, McpTool) for tool in tools.values())
    terms = (*agent.approvers, *agent.approvals, *agent.not_by_asker)
    labels = (*agent.trusted, *agent.secret, *agent.hidden)
    for name in (*named, *terms, *labels, *(rule.tool for rule in agent.allow)):
        if name not in tools and not waiting and not agent.a2a:
            raise ConfigurationError(
                "The agent {agent_id} has no tool {tool}, which is named in its `approve`, `approvers`, "
                "`approvals`, `not_by_asker`, `trusted`, `secret`, `hidden` or `allow`; use one of: {known}.",
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
    if not isinstance(tool, BoundTool | McpTool | RemoteAgentTool):
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
        secret=marks.secret or tool.name in agent.secret,
        hidden=_hidden(agent, tool.name) or marks.hidden,
        **_approval_marks(agent, tool.name, marks, settings),
    )
    if tool.name in {*agent.approvers, *agent.approvals, *agent.not_by_asker}:
        changed = changed.with_approval()
    _ = changed.terms  # a role or number that cannot be used shows now
    return tool if changed == marks else replace(tool, marks=changed)


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
