"""The context of a node: its services, its agent and its tools."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from langgraph.runtime import Runtime

from segue.core.agents import Agent
from segue.core.context import AppContext, RunContext, Services
from segue.core.errors import ConfigurationError
from segue.core.events import Delta, Durable, to_dict
from segue.core.models import Model, is_local
from segue.core.tools import Tool

NodeRuntime = Runtime[RunContext]
State = TypeVar("State", contravariant=True)
Update = TypeVar("Update", covariant=True)


class Node(Protocol[State, Update]):
    """A node that is made for one configuration or graph."""

    def __call__(self, state: State, runtime: NodeRuntime) -> Awaitable[Update]: ...


@dataclass(frozen=True)
class NodeContext:
    """What a node works with: the services, and the agent with its model and tools."""

    services: Services
    context: RunContext
    agent: Agent

    @property
    def model(self) -> Model:
        return self.services.model_for(self.agent, self.context.model)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.services.tools_for(self.agent)

    @property
    def accepted(self) -> Collection[str]:
        """The kinds of files that the model reads beside text."""
        return self.services.agents.accepted(self.agent, self.context.model)

    @property
    def state_last(self) -> bool:
        """Whether the state follows the records in a json prompt."""
        return self.agent.state == "last" or (self.agent.state is None and is_local(self.model.name))

    def seconds_since(self, started_at: float) -> float:
        """Seconds worked on a task: time that it was paused or without a process does not count."""
        return self.services.clock() - max(started_at, self.services.began)

    @property
    def emit(self) -> Callable[[Delta], None]:
        """Streams a delta; what is durable is returned from the node under `events` instead."""
        return self.services.emit


def node_context(runtime: NodeRuntime) -> NodeContext:
    """The services of the run.

    Raises:
        ConfigurationError: the graph was put together without them.
    """
    context = runtime.context
    if not isinstance(context, AppContext) or context.services is None:
        raise ConfigurationError("A node has no services: build its graph as an AgentGraph.")
    return NodeContext(context.services, context, context.services.agent(context.agent))


def announce(*events: Durable) -> list[dict[str, Any]]:
    """Durable events in the form that a node returns under `events`."""
    return [to_dict(event) for event in events]
