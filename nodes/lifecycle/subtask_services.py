"""Services and ledger of one subtask: its events name it, and its answer is not the task's."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

from segue.core.agents import Agent
from segue.core.events import Event, Thinking, Token
from segue.core.ids import Ids
from segue.core.ports import AppContext, CallKey, Claim, Ledger, Memory, Model, Services, Tool
from segue.tools.calls.run import unknown_outcome

from ..shared.context import NodeRuntime

OF_THE_WHOLE = frozenset({"answer", "plan_update", "step_update"})
"""Events that a part does not tell: they would be taken for the whole task's."""

Node = TypeVar("Node", bound=Callable[..., Awaitable[Any]])


class SubtaskServices:
    """The services of the whole for one subtask: its streamed answer is sent as a thought of its step."""

    def __init__(self, whole: Services, step_id: str, ledger: Ledger | None) -> None:
        self._whole = whole
        self.step_id = step_id
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
        return await self._whole.notes(task_id)

    def emit(self, event: Event) -> None:
        if isinstance(event, Token):
            event = Thinking(
                task_id=event.task_id,
                trace_id=event.trace_id,
                iteration=event.iteration,
                content=event.content,
                attempt=event.attempt,
            )
        self._whole.emit(replace(event, step_id=self.step_id))


def as_part(node: Node) -> Node:
    """A node of the react graph whose durable events name the subtask that they belong to."""

    @wraps(node)
    async def part(state: Any, runtime: NodeRuntime) -> Any:
        update = await node(state, runtime)
        if not update.get("events"):
            return update
        emitted = [event for event in update["events"] if event["type"] not in OF_THE_WHOLE]
        return {**update, "events": [_of(_step_of(runtime), event) for event in emitted]}

    return cast(Node, part)


def _step_of(runtime: NodeRuntime) -> str:
    context = runtime.context
    services = context.services if isinstance(context, AppContext) else None
    return services.step_id if isinstance(services, SubtaskServices) else ""


def _of(step_id: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a part: an error ends the part and not the task."""
    data = {**event["data"], "final": False} if event["type"] == "error" else event["data"]
    return {**event, "step_id": step_id, "data": data}


class SubtaskLedger:
    """The whole task's ledger, with the calls of one subtask that are under way."""

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

    async def cancel(self, tools: Mapping[str, Tool], why: str) -> None:
        """Settle the calls that were interrupted: of one that changes something, nobody knows whether it did."""
        for key, name in list(self._under_way.items()):
            tool = tools.get(name)
            harmless = tool is not None and (tool.read_only or tool.idempotent)
            await self.settle(key, {"error": why} if harmless else unknown_outcome(f"{name}: {why}"))
