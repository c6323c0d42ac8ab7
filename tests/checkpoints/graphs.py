"""A small graph with everything that the saver must keep: a subgraph, a DeltaChannel and an events channel."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel, EphemeralValue
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from segue.checkpoints.events import EventLog
from segue.checkpoints.ports import Database
from segue.checkpoints.saver import FencedSaver
from segue.core.events import Event, Thought


class Announced(EphemeralValue[Any]):
    """A channel that keeps nothing: neither a checkpoint nor a subgraph sees what was announced."""

    def update(self, values: Sequence[Any]) -> bool:
        return False

    def checkpoint(self) -> Any:
        return EphemeralValue(self.typ).checkpoint()


def extend(history: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*history, *(message for write in writes for message in write)]


class Talk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], DeltaChannel(extend, snapshot_frequency=3)]
    done: Annotated[list[str], operator.add]
    events: Annotated[list[dict[str, Any]], Announced(list, guard=False)]


class Said(TypedDict, total=False):
    done: Annotated[list[str], operator.add]


class Crash(Exception):
    """A node's process ends here."""


@dataclass
class Steps:
    """Makes nodes and remembers which ones ran; a node named in `crashing` crashes instead."""

    ran: list[str] = field(default_factory=list)
    crashing: set[str] = field(default_factory=set)

    def node(self, name: str, events: int = 2, quiet: bool = False) -> Any:
        async def step(state: Talk) -> dict[str, Any]:
            self.ran.append(name)
            if name in self.crashing:
                raise Crash(name)
            announced = {"events": [thought(f"{name} {n}") for n in range(events)]}
            return announced if quiet else {**announced, "messages": [AIMessage(name)], "done": [name]}

        return step


def thought(text: str, task_id: str = "t1") -> dict[str, Any]:
    return Thought(task_id=task_id, text=text, timestamp=1.0).json()


def build(steps: Steps) -> StateGraph[Any, Any, Any, Any]:
    """first → inner(second → third) → last."""
    inner = chain(StateGraph(Talk, output_schema=Said), second=steps.node("second"), third=steps.node("third"))
    return chain(StateGraph(Talk), first=steps.node("first"), inner=inner.compile(), last=steps.node("last"))


def chain(graph: StateGraph[Any, Any, Any, Any], **nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    """One node after the other."""
    graph.add_sequence(list(nodes.items()))
    graph.add_edge(START, next(iter(nodes)))
    return graph


async def run(graph: Any, given: Any, thread_id: str = "s") -> dict[str, Any]:
    output: dict[str, Any] = await graph.ainvoke(given, config_of(thread_id), durability="sync")
    return output


def config_of(thread_id: str = "s") -> Any:
    return {"configurable": {"thread_id": thread_id}}


def at(thread_id: str, checkpoint_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}


def compiled(steps: Steps, saver: BaseCheckpointSaver[str]) -> Any:
    return build(steps).compile(checkpointer=saver)


HELLO = {"messages": [HumanMessage("hello")]}
ALL = [f"{name} {n}" for name in ("first", "second", "third", "last") for n in range(2)]


@dataclass
class Place:
    """A saver on a database, and the events that it told of."""

    database: Database
    told: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.saver = FencedSaver(self.database, self.told.extend)

    async def texts(self, task_id: str = "t1") -> list[str]:
        """The logged events' texts; their numbers must be contiguous."""
        kept = await EventLog(self.database).read(task_id)
        assert [event.seq for event in kept] == list(range(1, len(kept) + 1))
        return [event.data["text"] for event in kept]

    async def count(self, query: str, *values: Any) -> int:
        return int(await self.database.read(lambda db: db.execute(query, values).fetchone()[0]))
