"""Services and ledger of a part of a task, such as a subtask or a branch: its answer is not the task's."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from segue.core.agents import Agent
from segue.core.context import Services
from segue.core.events import Event, Thinking, Token
from segue.core.ids import Ids
from segue.core.memory import Memory
from segue.core.models import Model
from segue.core.records import Call
from segue.core.tools import CallKey, Claim, Ledger, Tool
from segue.tools.calls.run import unknown_outcome

OF_THE_WHOLE = frozenset({"answer", "plan_update", "step_update"})
"""Events that a part does not tell: they would be taken for the whole task's."""


class PartServices:
    """The services of the whole for one part: its streamed answer is sent as a thought.

    Its events name the subtask (`step_id`) or the round (`parent_id`) that the part belongs to.
    """

    def __init__(self, whole: Services, ledger: Ledger | None, *, step_id: str = "", parent_id: str = "") -> None:
        self._whole = whole
        named = {"step_id": step_id, "parent_id": parent_id}
        self._ids: dict[str, Any] = {name: value for name, value in named.items() if value}
        self.ledger = ledger
        self.memory: Memory = whole.memory
        self.ids: Ids = whole.ids
        self.began = whole.began
        self.participants = whole.participants

    def agent(self, name: str) -> Agent:
        return self._whole.agent(name)

    def model_for(self, agent: Agent, override: str = "") -> Model:
        return self._whole.model_for(agent, override)

    def tools_for(self, agent: Agent) -> Mapping[str, Tool]:
        return self._whole.tools_for(agent)

    def clock(self) -> float:
        return self._whole.clock()

    def pausing(self) -> bool:
        return self._whole.pausing()

    async def notes(self, task_id: str) -> Sequence[str]:
        """What was added to the task; a branch is steered through its controller."""
        return () if "parent_id" in self._ids else await self._whole.notes(task_id)

    def emit(self, event: Event) -> None:
        if isinstance(event, Token):
            event = Thinking(
                task_id=event.task_id,
                trace_id=event.trace_id,
                iteration=event.iteration,
                content=event.content,
                attempt=event.attempt,
            )
        self._whole.emit(replace(event, **self._ids))

    def announced(self, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The durable events of the part: an error ends the part and not the task."""
        return [
            {**event, **self._ids, "data": _of_part(event)} for event in events if event["type"] not in OF_THE_WHOLE
        ]


def _of_part(event: Mapping[str, Any]) -> dict[str, Any]:
    return {**event["data"], "final": False} if event["type"] == "error" else event["data"]


class PartLedger:
    """The whole task's ledger, with the calls of a part that are under way."""

    def __init__(self, whole: Ledger) -> None:
        self._whole = whole
        self._under_way: dict[CallKey, str] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        return await self._whole.read(key)

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any]) -> Claim:
        claim = await self._whole.claim(key, name, arguments)
        if claim.state != "finished":
            self._under_way[key] = name
        return claim

    async def settle(self, key: CallKey, outcome: Mapping[str, Any]) -> None:
        await self._whole.settle(key, outcome)
        self._under_way.pop(key, None)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._whole.unknown(task_id)

    async def finished(self) -> Sequence[Call]:
        return await self._whole.finished()

    async def cancel(self, tools: Mapping[str, Tool], why: str) -> None:
        """Settle the calls that were interrupted: of one that changes something, nobody knows whether it did."""
        for key, name in list(self._under_way.items()):
            tool = tools.get(name)
            harmless = tool is not None and (tool.read_only or tool.idempotent)
            await self.settle(key, {"error": why} if harmless else unknown_outcome(f"{name}: {why}"))
