"""Whole graphs on scripted models."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.errors import GraphDrained
from langgraph.graph import StateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command

from segue.core.agents import Agent
from segue.core.context import AppContext, Services
from segue.core.events import Event
from segue.registry import Registry, services_of
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


class Crowd:
    """A read-only tool that counts how many of its calls run at once."""

    def __init__(self) -> None:
        self.inside = self.most = 0

        @tool(read_only=True)
        async def visit(name: str) -> str:
            """Visit."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.inside -= 1
            return name

        self.visit = visit


@pytest.fixture
def crowd() -> Crowd:
    return Crowd()


@dataclass
class Bed:
    """A graph on a saver, with a scripted agent.

    `durable` is what the nodes announced, `notes` what a person added; a run stops behind the node `pause_after`.
    """

    graph: Any
    model: ScriptedChatModel
    registry: Registry
    services: Services
    deltas: list[Event] = field(default_factory=list)
    durable: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    control: RunControl = field(default_factory=RunControl)
    pause_after: str = ""

    async def send(self, message: str, thread: str = "t", **context: Any) -> dict[str, Any]:
        """One turn; returns what the graph returns."""
        return await self._run({"messages": [("user", message)]}, thread, context)

    async def start(self, given: Mapping[str, Any], thread: str = "t", **context: Any) -> dict[str, Any]:
        """One run from an input of the graph's own."""
        return await self._run(given, thread, context)

    async def answer(self, answer: Any, thread: str = "t", **context: Any) -> dict[str, Any]:
        """Answer the question that the graph stands with."""
        return await self._run(Command(resume=answer), thread, context)

    async def resume(self, thread: str = "t", **context: Any) -> dict[str, Any]:
        """Go on from where the graph stands."""
        return await self._run(None, thread, context)

    def pause(self) -> None:
        """Have the run stop at its next boundary."""
        self.control.request_drain("pause")

    async def question(self, thread: str = "t") -> dict[str, Any]:
        """What the graph stands with."""
        state = await self.graph.aget_state({"configurable": {"thread_id": thread}})
        (asked,) = state.interrupts
        value: dict[str, Any] = asked.value
        return value

    async def _run(self, given: Any, thread: str, context: Mapping[str, Any]) -> dict[str, Any]:
        config = {"configurable": {"thread_id": thread}, "recursion_limit": 2000}
        carried = AppContext.carrying(self.services, **context)
        modes = ["updates", "values"]
        output: dict[str, Any] = {}
        stream = self.graph.astream(
            given, config, context=carried, stream_mode=modes, subgraphs=True, version="v2", control=self.control
        )
        try:
            async for part in stream:
                if part["type"] == "updates":
                    for node, update in part["data"].items():
                        if node == self.pause_after:
                            self.pause()
                        self.durable += [] if node == "__interrupt__" else (update or {}).get("events", [])
                elif not part["ns"]:
                    output = part["data"]
        except GraphDrained:
            return {}
        finally:
            self.control, self.pause_after = RunControl(), ""
        return output

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.durable]

    def of_type(self, kind: str) -> list[Mapping[str, Any]]:
        return [event for event in self.durable if event["type"] == kind]


@pytest.fixture
async def saver(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """Memory, or SQLite where a module asks for both: those whose runs stop and go on."""
    if getattr(request, "param", "memory") == "memory":
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
        notes: list[str] = []

        async def noted(task_id: str) -> list[str]:
            return notes

        services = services_of(registry, deltas.append, ids=CountedIds(), notes=noted)
        return Bed(build().compile(checkpointer=saver), model, registry, services, deltas, notes=notes)

    return make
