"""Modes of one's own beside the built-in ones, graphs with agents of one's own, and the types in their states."""

import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.types import Checkpointer
from pydantic import BaseModel, Field, create_model
from typing_extensions import is_typeddict

from ..core.agents import Agent
from ..core.context import AppContext, GivenAgent, RunContext
from ..core.errors import ConfigurationError, UnknownMode
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
from ..nodes.chat import AUTO, ModeGraph
from ..nodes.context import NodeRuntime, node_context
from ..nodes.own_mode import own_context
from ..nodes.task import GraphInput, TaskOutput
from ..registry import EXAMPLES, AgentGraph, Registry

# Modes of one's own beside the built-in ones, and graphs with agents of one's own.

_MODE = re.compile(r"[^\W\d]\w{0,63}")
_NODES = ("INIT", "CONDENSE", "SELECT_MODE", "FINISH")
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


MOST_STEPS = 10_007
"""Steps that a mode of one's own may take: LangGraph's default, whatever the agent's budget."""

_LONG = ("lifecycle", "conversation", "controller", "controller_executor")
"""Graphs whose runs take many nodes."""


def mode_graphs(modes: Mapping[str, Any]) -> dict[str, ModeGraph]:
    """Graphs of one's own, compiled where they are not; a flow's configuration becomes the graph of its mode.

    Raises:
        ConfigurationError: a name is taken, or what it names is not a graph that can be a mode.
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
        compiled = graph.compile() if isinstance(graph, StateGraph) else graph
        _check_mode(name, compiled)
        limited = isinstance(given, FlowConfig) or "recursion_limit" in (compiled.config or {})
        graphs[name] = compiled if limited else compiled.with_config(recursion_limit=MOST_STEPS)
    return graphs


def _check_mode(name: str, graph: ModeGraph) -> None:
    if graph.output_channels != "__root__" and "messages" not in graph.output_channels:  # a bare dict has no fields
        raise ConfigurationError(
            "The state of the mode {name} has no messages, where its answer would be: add them, as in "
            "langgraph.graph.MessagesState.",
            name=name,
        )
    schema, context = graph.context_schema, own_context(graph, RunContext())
    try:
        if schema and not (isinstance(context, RunContext) or is_typeddict(schema)):
            schema(**context)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            "The context of the mode {name} cannot be made from Segue's ({reason}): give fields that Segue does not "
            "know a default, and those that it knows its type.",
            name=name,
            reason=" ".join(str(error).split()),
        ) from error
    for each in (graph, *(inner for _, inner in graph.get_subgraphs(recurse=True))):
        if isinstance(each, Pregel) and (each.interrupt_before_nodes or each.interrupt_after_nodes):
            raise ConfigurationError(
                "The mode {name} is compiled with interrupt_before or interrupt_after, which ask nothing that could "
                "be answered: call langgraph.types.interrupt in the node.",
                name=name,
            )


@lru_cache(maxsize=16)
def _compiled(*modes: tuple[str, ModeGraph]) -> ModeGraph:
    return build_chat(dict(modes)).compile()


def chat_graph(modes: Mapping[str, ModeGraph]) -> ModeGraph:
    """The chat graph over these modes, without a checkpointer: compiling it takes half the time of opening an app."""
    return _compiled(*modes.items())


def wired_graph(
    registry: Registry, agent_id: str, modes: Mapping[str, ModeGraph]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A chat graph that carries its services with it; within a task, those of the task."""
    chat = chat_graph(modes)

    async def segue(state: GraphInput, runtime: NodeRuntime) -> TaskOutput:
        work, given = node_context(runtime), list(state["messages"])
        await registry.prepare(registry.agent(agent_id))
        context = AppContext.carrying(work.services, **{**work.context.model_dump(), "agent": agent_id})
        out = await chat.ainvoke({"messages": given}, context=context)
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
    all_modes = {**MODES, **mode_graphs(modes or {})}
    built = build_chat(all_modes) if name == "chat" else _BUILT[name]()
    own = list(agents)
    built.registry, built.own_agents = _registry(own), tuple(map(GivenAgent, own))
    built.context_schema = _context_of(built.registry)
    compiled = built.compile(checkpointer=checkpointer, name=name)
    return compiled.with_config(recursion_limit=MOST_NODES) if name in _LONG else compiled


def _registry(own: Sequence[Agent]) -> Registry:
    registry = Registry(() if own else EXAMPLES)
    for agent in own:
        registry.register(agent)
    return registry


def _context_of(registry: Registry) -> type[RunContext]:
    """The context whose form in Studio offers these agents."""
    about = f"id of an agent; empty: {registry.agent('').agent_id}"
    field = Field(default="", description=about, json_schema_extra={"enum": ["", *registry]})
    return create_model("RunContext", __base__=RunContext, agent=(str, field))


# Types of the values in the states of own modes, which keep them over an interrupt and in another process.


def kept_types(graphs: Mapping[str, ModeGraph]) -> set[type]:
    """The models, dataclasses, enums and named tuples that the graphs' states are annotated with.

    Raises:
        ConfigurationError: one cannot be found again in another process.
    """
    found: set[type] = set()
    for name, graph in graphs.items():
        for each in _types_of(_annotations(graph)):
            if getattr(sys.modules.get(each.__module__), each.__name__, None) is not each:
                raise ConfigurationError(
                    "The state of the mode {name} has values of the type {type}, which no other process can find: "
                    "define it at the top level of a module.",
                    name=name,
                    type=f"{each.__module__}.{each.__qualname__}",
                )
            found.add(each)
    return found


def _annotations(graph: ModeGraph) -> Iterator[Any]:
    builder = graph.builder
    yield from builder.schemas
    yield from (channel.ValueType for channel in builder.channels.values())
    for _, inner in graph.get_subgraphs():
        if isinstance(inner, CompiledStateGraph):
            yield from _annotations(inner)


def _types_of(annotations: Iterable[Any]) -> list[type]:
    """Every type of which values may be, subclasses among them."""
    waiting, seen, found = [*annotations], set[int](), list[type]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        waiting += get_args(each)
        if not isinstance(each, type):
            continue
        if is_typeddict(each):
            waiting += _hints(each)
        elif issubclass(each, BaseModel | Enum) or dataclasses.is_dataclass(each) or hasattr(each, "_fields"):
            waiting += [*_hints(each), *type.__subclasses__(each)]
            if each not in (BaseModel, Enum):
                found.append(each)
    return found


def _hints(each: type) -> list[Any]:
    try:
        return [*get_type_hints(each, include_extras=True).values()]
    except (NameError, TypeError):  # a name that is only there for the type checker
        return []
