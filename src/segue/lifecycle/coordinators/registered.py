"""The registered agents and their tools as an engine's context."""

from typing import Any

from ...core.lifecycle import Context
from ...registry import Registry

_SLOT = "{{"


class RegistryCoordinator:
    """Rules are the lines of the agent's prompt, knowledge is what the agents say of themselves.

    Without the name of an agent the tools of all of them are given, and no rules.
    """

    def __init__(self, registry: Registry, agent: str = "") -> None:
        self._registry = registry
        self._agent = agent

    @classmethod
    def of(cls, app: Any, agent: str = "") -> "RegistryCoordinator":
        """The coordinator over what is registered in an app."""
        return cls(app.registry, agent)

    async def get_context_async(self, text: str, /) -> Context:
        """The same for every request: all of it is known beforehand.

        Raises:
            UnknownAgent: listing the ones there are.
        """
        asked = [self._registry.agent(self._agent)] if self._agent else list(self._registry.agents.values())
        tools = {name: tool for agent in asked for name, tool in self._registry.tools_for(agent).items()}
        rules = _lines(asked[0].prompt) if self._agent else []
        known = [f"{agent.agent_id}: {agent.description}" for agent in asked if agent.description]
        return Context(rules=rules, knowledge=known, tools=[tool.spec["function"] for tool in tools.values()])


def _lines(prompt: str) -> list[str]:
    return [line.strip(" \t-*") for line in prompt.splitlines() if line.strip(" \t-*#") and _SLOT not in line]
