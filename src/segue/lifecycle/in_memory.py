"""A run in memory: the engine drives the lifecycle graph itself, one step at a time."""

import json
import uuid
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import RunControl
from langgraph.types import Command

from ..core.events import Event, from_dict
from ..core.ports import AppContext
from ..graphs.lifecycle import MOST_NODES, build_lifecycle
from ..registry import RunServices
from .backend import Arrived, Begin, Given, Restore
from .equipment import Equipment
from .ledger import MemoryLedger

Parts = AsyncGenerator[Any, None]


class MemoryTrack:
    """The graph over a saver in memory. `astream` does not run ahead of whoever reads it."""

    place: Mapping[str, str] = MappingProxyType({})

    def __init__(self, equipment: Equipment, concurrency: int) -> None:
        self._equipment = equipment
        self._concurrency = concurrency
        self._saver = InMemorySaver()
        self._control = RunControl()
        self._thread = ""
        self._shown: set[str] = set()
        self._services: RunServices | None = None
        self.standing = False
        self.question: Mapping[str, Any] | None = None

    @cached_property
    def _graph(self) -> CompiledStateGraph[Any, Any, Any, Any]:
        graph = build_lifecycle(self._equipment.coordinator, self._equipment.decompose, self._concurrency)
        return graph.compile(checkpointer=self._saver)

    def drain(self) -> None:
        """Have the run stop at its next boundary."""
        self._control.request_drain("a pause was asked for")

    def forget(self) -> None:
        """Let go of the run: the next one begins on a thread of its own."""
        if self._thread:
            self._saver.delete_thread(self._thread)
        self.standing, self.question, self._thread = False, None, ""
        self._shown.clear()

    def attach(self, snapshot: Mapping[str, Any]) -> None:
        """A run in memory is kept nowhere else."""

    async def recall(self) -> None:
        """Only the engine knows the run."""

    async def stretch(self, given: Given, arrived: Arrived) -> AsyncGenerator[None, None]:
        """Run until the end or a boundary, and yield after each step; what happened goes to `arrived` first.

        Closed in the middle it drains: what is under way comes to its boundary, and is still told to `arrived`.
        """
        self._control = RunControl()
        async with aclosing(await self._parts(given)) as parts:
            try:
                async for part in parts:
                    if arrived(self._fresh(part)):
                        yield
            except GraphDrained:
                pass
            except GeneratorExit:
                await self._drained(parts, arrived)
                raise
            finally:
                await self._look()

    async def _drained(self, parts: Parts, arrived: Arrived) -> None:
        self.drain()
        with suppress(Exception):  # what fails now fails again when the run goes on
            async for part in parts:
                arrived(self._fresh(part))

    def _fresh(self, part: Mapping[str, Any]) -> list[Event]:
        """The durable events of a step; after a pause LangGraph shows again what was finished before it."""
        updates = (update for name, update in part["data"].items() if name != "__interrupt__")
        forms = [form for update in updates for form in (update or {}).get("events", ())]
        found = [form for form in forms if json.dumps(form, default=str) not in self._shown]
        self._shown.update(json.dumps(form, default=str) for form in found)
        return [from_dict(form) for form in found]

    async def _parts(self, given: Given) -> Parts:
        agent = self._equipment.agent
        if not self._thread:
            self._thread = str(uuid.uuid4())
            await self._equipment.registry.prepare(agent)
            self._services = self._equipment.services(MemoryLedger())
        config: RunnableConfig = {**self._config, "recursion_limit": MOST_NODES}
        assert self._services is not None
        stream: Parts = self._graph.astream(  # type: ignore[assignment]
            self._input(given),
            config,
            context=AppContext.carrying(self._services, agent=agent.agent_id),
            stream_mode=["updates"],
            version="v2",
            subgraphs=True,
            durability="sync",
            control=self._control,
        )
        return stream

    def _input(self, given: Given) -> Any:
        if isinstance(given, Begin):
            return self._message(given.text)
        if isinstance(given, Restore):
            return {**self._message(given.mirror.input), "restored": given.mirror.left(given.phase)}
        if given.answer is not None and self.question is not None:
            return Command(resume={self.question["interrupt_id"]: given.answer})
        return None

    def _message(self, text: str) -> dict[str, Any]:
        return {"messages": [HumanMessage(text)], "assignment": {"task_id": self._thread}}

    @property
    def _config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self._thread}}

    async def _look(self) -> None:
        """See whether the run stands, and whether it waits for a person."""
        state = await self._graph.aget_state(self._config)
        self.standing = bool(state.tasks)
        asked: Sequence[Any] = state.interrupts
        self.question = {**asked[0].value, "interrupt_id": asked[0].id} if asked else None

    async def close(self) -> None:
        """End the sessions of the agent's MCP servers."""
        await self._equipment.registry.close()
