"""Routes of agents, their models and tasks, and of modes and graphs with their layout."""

import asyncio
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from fastapi import Request
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

from ... import graphs
from ...core.agents import Agent
from ...core.calls import Tool
from ...core.conversation import MODE as CONVERSATION
from ...core.errors import SegueError
from ...core.models import OFFLINE
from ...core.records import Json
from ...prompts.catalogue import Language, mode_label, render_over_http
from ..dependencies import Before, Limit, ServiceDep, TenantDep, routes
from ..errors import JsonResponse, language_of, not_found
from ..service import Service
from ..views import Page, TaskView, fields_of

# A graph's drawing: its nodes in ranks from top to bottom, its edges as curves between them.

CHAR, PADDING, HEIGHT = 7.6, 26.0, 34.0
"""Of a node's box: the width of a character, what is added to the text's width, and the height."""
RANK_GAP, NODE_GAP, BEND = 46.0, 18.0, 16.0
"""Between two ranks, between two nodes of a rank, and the room of an edge that passes a rank."""
MARGIN = 14.0
LOOP = 22.0
"""How far an edge from a node to itself reaches beside it."""
SWEEPS = 8

Edge = tuple[str, str]


@dataclass(frozen=True)
class Box:
    """A node's place: its centre and its size."""

    name: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Curve:
    """An edge as the data of an SVG path, which ends at its target."""

    source: str
    target: str
    path: str


@dataclass(frozen=True)
class Layout:
    """Where everything is drawn."""

    width: float
    height: float
    boxes: Sequence[Box]
    curves: Sequence[Curve]


def lay_out(nodes: Sequence[str], edges: Sequence[Edge]) -> Layout:
    """Draw a directed graph; the first node is its start; it may have loops and cycles."""
    ranked = _Ranked.of(nodes, edges)
    ranked.order()
    ranked.place()
    left = min(ranked.x[place] - ranked.width(place) / 2 for place in ranked.x)
    right = max(ranked.x[place] + ranked.width(place) / 2 + ranked.reach(place) for place in ranked.x)
    at = {
        place: (x + MARGIN - left, MARGIN + HEIGHT / 2 + ranked.rank[place] * (HEIGHT + RANK_GAP))
        for place, x in ranked.x.items()
    }
    boxes = [Box(name, *_rounded(at[name]), round(ranked.width(name), 1), HEIGHT) for name in nodes]
    curves = [Curve(*edge, _curve([at[name] for name in ranked.routes[edge]])) for edge in ranked.routes]
    curves += [Curve(name, name, _loop(*at[name], ranked.width(name))) for name in nodes if name in ranked.loops]
    height = 2 * MARGIN + HEIGHT + max(ranked.rank.values()) * (HEIGHT + RANK_GAP)
    return Layout(round(right - left + 2 * MARGIN, 1), round(height, 1), boxes, curves)


@dataclass
class _Ranked:
    """Nodes and the bends of long edges, in ranks; `x` is the centre of each."""

    nodes: frozenset[str]
    loops: frozenset[str]
    """Nodes with an edge to themselves."""
    rank: dict[str, int]
    routes: dict[Edge, list[str]]
    """For each edge the places that it passes, from source to target."""
    rows: list[list[str]] = field(default_factory=list)
    x: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[str], edges: Sequence[Edge]) -> "_Ranked":
        loops = frozenset(source for source, target in edges if source == target)
        edges = [edge for edge in dict.fromkeys(edges) if edge[0] != edge[1]]
        rank = _ranks(nodes, edges)
        routes = {edge: [*_route(edge, rank)] for edge in edges}
        for route in routes.values():
            step = 1 if rank[route[-1]] > rank[route[0]] else -1
            rank.update({place: rank[route[0]] + step * (at + 1) for at, place in enumerate(route[1:-1])})
        rows: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
        for place, row in rank.items():
            rows[row].append(place)
        return cls(frozenset(nodes), loops, rank, routes, rows)

    def width(self, place: str) -> float:
        return PADDING + CHAR * len(place) if place in self.nodes else BEND

    def reach(self, place: str) -> float:
        """The room that its loop takes beside it."""
        return LOOP if place in self.loops else 0.0

    def neighbours(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {place: [] for place in self.rank}
        for route in self.routes.values():
            for one, other in itertools.pairwise(route):
                found[one].append(other)
                found[other].append(one)
        return found

    def order(self) -> None:
        """Sort each rank by the mean place of its neighbours in the rank before, downwards and upwards."""
        near = self.neighbours()
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            for row in range(1, len(self.rows)) if down else range(len(self.rows) - 2, -1, -1):
                fixed = {place: at for at, place in enumerate(self.rows[row - 1 if down else row + 1])}
                self.rows[row] = _by_mean(self.rows[row], near, fixed)

    def place(self) -> None:
        """Move everything towards its neighbours, as far as the others of its rank let it."""
        near = self.neighbours()
        for row in self.rows:
            self._space_out(row, dict.fromkeys(row, 0.0))
        for _ in range(SWEEPS):
            for row in (*self.rows, *self.rows[::-1]):
                means = {place: _mean(self.x[other] for other in near[place]) for place in row if near[place]}
                self._space_out(row, {place: means.get(place, self.x[place]) for place in row})

    def _space_out(self, row: Sequence[str], targets: Mapping[str, float]) -> None:
        """Place a rank without overlaps, in its order, as near as can be to where each is targets."""
        edge = float("-inf")
        for place in row:
            half = self.width(place) / 2
            self.x[place] = max(targets[place], edge + half)
            edge = self.x[place] + half + self.reach(place) + NODE_GAP
        shift = _mean(targets[place] - self.x[place] for place in row)
        for place in row:
            self.x[place] += shift


def _ranks(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The longest way from the start to each node, without the edges that lead back."""
    forward = _without_cycles(nodes, edges)
    rank = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for source, target in forward:
            rank[target] = max(rank[target], rank[source] + 1)
    return rank


def _without_cycles(nodes: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
    """The edges that a walk in depth from the first nodes does not find to lead to a node that it is still in."""
    done: set[str] = set()
    back: set[Edge] = set()

    def walk(name: str, inside: frozenset[str]) -> None:
        done.add(name)
        for edge in edges:
            if edge[0] == name and edge[1] in inside:
                back.add(edge)
            elif edge[0] == name and edge[1] not in done:
                walk(edge[1], inside | {edge[1]})

    for name in nodes:
        if name not in done:
            walk(name, frozenset({name}))
    return [edge for edge in edges if edge not in back]


def _route(edge: Edge, rank: Mapping[str, int]) -> Iterator[str]:
    """An edge's source, a bend for each rank between, and its target."""
    source, target = edge
    yield source
    yield from (f"{source}>{target}#{at}" for at in range(1, abs(rank[target] - rank[source])))
    yield target


def _by_mean(row: Sequence[str], near: Mapping[str, list[str]], fixed: Mapping[str, int]) -> list[str]:
    means = {}
    for at, place in enumerate(row):
        places = [fixed[other] for other in near[place] if other in fixed]
        means[place] = _mean(places) if places else float(at)
    return sorted(row, key=means.__getitem__)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _rounded(point: tuple[float, float]) -> tuple[float, float]:
    return round(point[0], 1), round(point[1], 1)


def _curve(points: Sequence[tuple[float, float]]) -> str:
    """A curve that leaves the first box, passes the bends, and enters the last box, vertically."""
    down = points[-1][1] > points[0][1]
    half = HEIGHT / 2 if down else -HEIGHT / 2
    ends = [(points[0][0], points[0][1] + half), *points[1:-1], (points[-1][0], points[-1][1] - half)]
    parts = [f"M{ends[0][0]:.1f} {ends[0][1]:.1f}"]
    for (x, y), (to_x, to_y) in itertools.pairwise(ends):
        middle = (y + to_y) / 2
        parts.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
    return " ".join(parts)


def _loop(x: float, y: float, width: float) -> str:
    """A curve from the right side of a box to itself."""
    right, far = x + width / 2, x + width / 2 + LOOP * 4 / 3
    return f"M{right:.1f} {y - 8:.1f} C{far:.1f} {y - 14:.1f} {far:.1f} {y + 14:.1f} {right:.1f} {y + 8:.1f}"


# Routes of agents, their models and tasks, and of modes and graphs.

router = routes("agents")


class ToolView(BaseModel):
    """A tool of an agent."""

    name: str = Field(examples=["get_weather"])
    title: str
    description: str
    read_only: bool
    needs_approval: bool


class AgentView(BaseModel):
    """An agent that messages may be sent to."""

    agent_id: str
    description: str
    suggestions: list[str] = Field(description="messages to begin with, in the request's language where it has them")
    mode: str = Field(description="used for a message that names none")
    modes: list[str] = Field(description="what a message may name")
    max_iteration: int
    default: bool
    model: str = Field(examples=["openai:gpt-4.1-mini"])
    reads_files: bool = Field(description="whether its tools read files that were uploaded to /api/files")
    tools: list[ToolView] = Field(description="those of MCP servers once they were used")
    error: str = Field(description="why its tools cannot be used; empty if they can")


class ModelView(BaseModel):
    """A model, and the agents that answer with it unless a message names another."""

    model: str = Field(examples=["openai:gpt-4.1-mini"])
    offline: bool = Field(description="whether it is the offline planner: rules, not a language model")
    default: bool
    agents: list[str]


@router.get("/api/agents", response_model=Page[AgentView])
async def agents(service: ServiceDep, _: TenantDep, request: Request) -> JsonResponse:
    """The agents; a message that names none goes to the default one."""
    items = [
        await asyncio.to_thread(_view, service, agent, language_of(request.scope)) for agent in service.agents.values()
    ]
    return JsonResponse({"items": items, "next": None})


@router.get("/api/models", response_model=Page[ModelView])
async def models(service: ServiceDep, _: TenantDep) -> JsonResponse:
    """The configured models, and the offline planner, which is always there."""
    agents = service.app.agents
    named = {agent.agent_id: agents.model_name(agent) for agent in service.agents.values()}
    items = [
        {
            "model": model,
            "offline": model == OFFLINE,
            "default": model == named[service.default_agent],
            "agents": [agent_id for agent_id, its_own in named.items() if its_own == model],
        }
        for model in dict.fromkeys([*named.values(), OFFLINE])
    ]
    return JsonResponse({"items": items, "next": None})


@router.get("/api/agents/{agent_id}/tasks", response_model=Page[TaskView])
async def agent_tasks(
    agent_id: str, service: ServiceDep, tenant: TenantDep, limit: Limit = 50, before: Before = None
) -> JsonResponse:
    """The agent's tasks, the latest first."""
    if agent_id not in service.agents:
        raise not_found("agent", agent_id)
    return JsonResponse(await service.page_of_tasks(tenant, limit, before, agent_id=agent_id))


def _view(service: Service, agent: Agent, language: Language) -> Json:
    agents = service.app.agents
    tools: list[Json] = []
    error = ""
    try:
        tools = [_tool(tool) for tool in agents.tools_for(agent).values()]
    except SegueError as fault:
        error = render_over_http(fault, language)
    return fields_of(
        AgentView,
        agent,
        suggestions=_suggestions(agent, tools, language),
        modes=service.app.modes,
        default=agent.agent_id == service.default_agent,
        model=agents.model_name(agent),
        reads_files=agents.reads_files(agent),
        tools=tools,
        error=error,
    )


SUGGESTED = 3
"""How many messages are derived from an agent's tools."""
_SENTENCE = re.compile(r"(.{2,120}?)(?:\.(?=\s+[^a-z])|\.?$|(?<=[!?。！？]))", re.MULTILINE)
"""One of at most 120 characters, without its full stop."""


def _suggestions(agent: Agent, tools: list[Json], language: Language) -> list[str]:
    """The agent's own, else what its first tools say that they do."""
    own = agent.suggestions
    if isinstance(own, dict):
        own = own.get(language) or next(iter(own.values()), ())
    does = (_SENTENCE.match(tool["description"]) for tool in tools)
    return [*own] or [sentence[1] for sentence in does if sentence][:SUGGESTED]


def _tool(tool: Tool) -> Json:
    title, description = tool.spec.get("segue", {}).get("title", ""), tool.spec["function"].get("description", "")
    return fields_of(ToolView, tool, title=title, description=description)


graphs_router = routes("graphs")


class ModeView(BaseModel):
    """A mode as a list of choices shows it, in the request's language."""

    name: str = Field(examples=["react"])
    label: str = Field(examples=["ReAct"])
    description: str


class Modes(BaseModel):
    """The modes that a message may ask for."""

    items: list[str]
    modes: list[ModeView]


class NodeView(BaseModel):
    """A node's box, by its centre."""

    name: str
    x: float
    y: float
    width: float
    height: float


class EdgeView(BaseModel):
    """An edge as the data of an SVG path."""

    source: str
    target: str
    path: str
    conditional: bool


class Drawing(BaseModel):
    """A graph as Mermaid text, and laid out to be drawn."""

    name: str
    mermaid: str
    width: float
    height: float
    nodes: list[NodeView]
    edges: list[EdgeView]


@graphs_router.get("/api/modes", response_model=Modes)
async def modes(service: ServiceDep, _: TenantDep, request: Request) -> JsonResponse:
    """The modes that a message may ask for."""
    names, language = [*service.app.modes, CONVERSATION], language_of(request.scope)
    described = [
        {"name": name, "label": mode_label(name, language), "description": service.app.mode_description(name, language)}
        for name in names
    ]
    return JsonResponse({"items": names, "modes": described})


@graphs_router.get("/api/graphs/{name}", response_model=Drawing)
async def graph(name: str, service: ServiceDep, _: TenantDep) -> JsonResponse:
    """A graph's diagram: react, direct, plan, chat, …, or a registered mode."""
    if own := service.app.own_modes.get(name):
        return JsonResponse(await asyncio.to_thread(_drawn, name, own))
    if name not in _names():
        raise not_found("graph", name)
    return JsonResponse(await asyncio.to_thread(_built_in, name))


@cache
def _names() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(graphs.__path__))


@cache
def _built_in(name: str) -> Json:
    return _drawn(name, import_module(f"{graphs.__name__}.{name}").graph)


def _drawn(name: str, compiled: CompiledStateGraph[Any, Any, Any, Any]) -> Json:
    drawing = compiled.get_graph()
    conditional = {(edge.source, edge.target): edge.conditional for edge in drawing.edges}
    layout = lay_out([*drawing.nodes], [*conditional])
    return {
        "name": name,
        "mermaid": drawing.draw_mermaid(),
        "width": layout.width,
        "height": layout.height,
        "nodes": [asdict(box) for box in layout.boxes],
        "edges": [{**asdict(curve), "conditional": conditional[curve.source, curve.target]} for curve in layout.curves],
    }
