"""Whole graphs on scripted models, once in memory and once on SQLite."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import StateGraph

from segue.agents import Agent
from segue.bootstrap import Registry, RunServices
from segue.events import Event
from segue.services import AppContext
from segue.tools.registry import tool
from tests.fakes import CountedIds, ScriptedChatModel


@tool(read_only=True)
def double(number: int) -> dict[str, int]:
    """Double a number."""
    return {"doubled": number * 2}


@tool
def note(text: str) -> str:
    """Write a note down."""
    return f"noted {text}"


@tool(read_only=True)
def fail(reason: str) -> str:
    """Fail."""
    raise RuntimeError(reason)


@dataclass
class Bed:
    """A graph on a saver, with a scripted agent; `events` are the deltas, `durable` what the nodes announced."""

    graph: Any
    model: ScriptedChatModel
    registry: Registry
    services: RunServices
    deltas: list[Event] = field(default_factory=list)
    durable: list[Mapping[str, Any]] = field(default_factory=list)

    async def send(self, message: str, thread: str = "t", **context: Any) -> dict[str, Any]:
        """One turn; returns what the graph returns."""
        config = {"configurable": {"thread_id": thread}, "recursion_limit": 2000}
        given = {"messages": [("user", message)]}
        carried = AppContext.carrying(self.services, **context)
        output: dict[str, Any] = {}
        async for part in self.graph.astream(
            given, config, context=carried, stream_mode=["updates", "values"], subgraphs=True, version="v2"
        ):
            if part["type"] == "updates":
                for update in part["data"].values():
                    self.durable += (update or {}).get("events", [])
            elif not part["ns"]:
                output = part["data"]
        return output

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.durable]

    def of_type(self, kind: str) -> list[Mapping[str, Any]]:
        return [event for event in self.durable if event["type"] == kind]


@pytest.fixture(params=["memory", "sqlite"])
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    if request.param == "memory":
        yield InMemorySaver()
        return
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "graph.db")) as sqlite:
        yield sqlite


Make = Callable[..., Bed]


@pytest.fixture
def bed(saver: BaseCheckpointSaver[Any]) -> Make:
    def make(build: Callable[[], StateGraph[Any, Any, Any, Any]], script: Sequence[Any], **fields: Any) -> Bed:
        model = ScriptedChatModel(script)
        agent = Agent(**{"agent_id": "a", "model": model, "tools": (double, note, fail), **fields})
        registry = Registry((agent,), environ={})
        deltas: list[Event] = []
        services = RunServices(registry, deltas.append, ids=CountedIds())
        return Bed(build().compile(checkpointer=saver), model, registry, services, deltas)

    return make
