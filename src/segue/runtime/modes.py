"""Modes of one's own beside the built-in ones, and graphs with agents of one's own."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer
from pydantic import Field, create_model

from ..agent_graph import AgentGraph
from ..core.agents import Agent
from ..core.context import AppContext, RunContext
from ..core.errors import ConfigurationError, UnknownMode
from ..core.events import to_dict
from ..core.flows import FlowConfig
from ..graphs.chat import MODES, UNLISTED, build_chat
from ..graphs.controller import build_controller
from ..graphs.controller_executor import build_controller_executor
from ..graphs.conversation import build_conversation
from ..graphs.direct import build_direct
from ..graphs.lifecycle import MOST_NODES, build_lifecycle
from ..graphs.plan import build_plan
from ..graphs.plan_react import build_plan_react
from ..graphs.react import build_react
from ..nodes.chat.run_mode import ModeGraph
from ..nodes.chat.select_mode import AUTO
from ..nodes.shared.task import GraphInput, TaskOutput
from ..registry import EXAMPLES, Registry, services_of

_MODE = re.compile(r"[^\W\d]\w{0,63}")
_NODES = ("INIT", "SELECT_MODE", "FINISH")
_BUILT: Mapping[str, Callable[[], AgentGraph[Any, Any, Any]]] = {
    "controller": build_controller,
    "controller_executor": build_controller_executor,
    "conversation": build_conversation,
    "direct": build_direct,
    "react": build_react,
    "plan": build_plan,
    "plan_react": build_plan_react,
    "lifecycle": build_lifecycle,
}


_LONG = ("lifecycle", "conversation", "controller", "controller_executor")
"""Graphs whose runs take many nodes."""


def mode_graphs(modes: Mapping[str, Any]) -> dict[str, ModeGraph]:
    """Graphs of one's own, compiled where they are not; a flow's configuration becomes the graph of its mode.

    Raises:
        ConfigurationError: a name is taken, or what it names is not a graph.
    """
    graphs: dict[str, ModeGraph] = {}
    for name, given in modes.items():
        if name in (*MODES, *UNLISTED, AUTO, *_NODES) or not _MODE.fullmatch(name):
            raise ConfigurationError(
                "A mode cannot be called {name}: use a name of letters that is not a built-in mode.", name=name
            )
        graph = build_controller(given.model_copy(update={"name": name})) if isinstance(given, FlowConfig) else given
        if not isinstance(graph, StateGraph | CompiledStateGraph):
            raise ConfigurationError("The mode {name} is not a LangGraph graph: {graph}.", name=name, graph=repr(graph))
        graphs[name] = graph.compile() if isinstance(graph, StateGraph) else graph
    return graphs


@lru_cache(maxsize=16)
def _compiled(*modes: tuple[str, ModeGraph]) -> ModeGraph:
    return build_chat(dict(modes)).compile()


def chat_graph(modes: Mapping[str, ModeGraph]) -> ModeGraph:
    """The chat graph over these modes, without a checkpointer: compiling it takes half the time of opening an app."""
    return _compiled(*modes.items())


def wired_graph(
    registry: Registry, agent_id: str, modes: Mapping[str, ModeGraph]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A chat graph that carries its services with it."""
    chat = chat_graph(modes)

    async def segue(state: GraphInput, runtime: Runtime[RunContext]) -> TaskOutput:
        write = get_stream_writer()
        services = services_of(registry, lambda event: write(to_dict(event)))
        await registry.prepare(registry.agent(agent_id))
        given = list(state["messages"])
        asked: RunContext | None = runtime.context
        fields = {**(asked or RunContext()).model_dump(), "agent": agent_id}
        out = await chat.ainvoke({"messages": given}, context=AppContext.carrying(services, **fields))
        return {"messages": out["messages"][len(given) :], "result": out["result"]}

    graph = AgentGraph(TaskOutput, RunContext, input_schema=GraphInput, output_schema=TaskOutput)
    graph.registry = registry
    graph.add_node("segue", segue)
    graph.add_edge(START, "segue")
    graph.add_edge("segue", END)
    return graph.compile()


def graph(
    name: str = "chat",
    *,
    agents: Iterable[Agent] = (),
    modes: Mapping[str, Any] | None = None,
    checkpointer: Checkpointer = None,
) -> CompiledStateGraph[Any, RunContext, Any, Any]:
    """One of Segue's graphs with agents of your own, for `langgraph.json`, `invoke` or a graph of your own.

    The first of the agents is the default one; the examples follow. `name` is `chat` or a built-in mode, and `modes`
    are graphs by name beside the built-in ones, for `chat`. Nothing is opened or connected here.

    Raises:
        UnknownMode: there is no graph of that name.
        UnknownTool, ConfigurationError: an agent or a mode is wrong.
    """
    if name not in (*_BUILT, "chat"):
        raise UnknownMode(name, ["chat", *_BUILT])
    own = {**MODES, **mode_graphs(modes or {})}
    built = build_chat(own) if name == "chat" else _BUILT[name]()
    built.registry = _registry(agents)
    built.context_schema = _context_of(built.registry)
    compiled = built.compile(checkpointer=checkpointer, name=name)
    return compiled.with_config(recursion_limit=MOST_NODES) if name in _LONG else compiled


def _registry(agents: Iterable[Agent]) -> Registry:
    own = list(agents)
    names = {agent.agent_id for agent in own}
    registry = Registry([*own, *(agent for agent in EXAMPLES if agent.agent_id not in names)])
    for agent in own:
        registry.register(agent)
    return registry


def _context_of(registry: Registry) -> type[RunContext]:
    """The context whose form in Studio offers these agents."""
    about = f"id of an agent; empty: {registry.agent('').agent_id}"
    field = Field(default="", description=about, json_schema_extra={"enum": ["", *registry]})
    return create_model("RunContext", __base__=RunContext, agent=(str, field))
