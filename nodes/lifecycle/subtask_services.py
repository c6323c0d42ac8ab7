"""A subtask runs in the react graph as a part of the whole: its events say so, and its answer is not the task's."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

from segue.core.agents import Agent
from segue.core.events import Event, Thinking, Token
from segue.core.ids import Ids
from segue.core.ports import AppContext, Ledger, Model, Services, Tool

from ..shared.context import NodeRuntime

OF_THE_WHOLE = frozenset({"answer", "plan_update", "step_update"})
"""Events that a part does not tell: they would be taken for the whole task's."""

Node = TypeVar("Node", bound=Callable[..., Awaitable[Any]])


class PartServices:
    """The services of the whole for one subtask: what is streamed of its answer is told as a thought of its step."""

    def __init__(self, whole: Services, step_id: str, ledger: Ledger | None) -> None:
        self._whole = whole
        self.step_id = step_id
        self.ledger = ledger
        self.ids: Ids = whole.ids
        self.began = whole.began

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
        told = [event for event in update["events"] if event["type"] not in OF_THE_WHOLE]
        return {**update, "events": [_of(_step_of(runtime), event) for event in told]}

    return cast(Node, part)


def _step_of(runtime: NodeRuntime) -> str:
    context = runtime.context
    services = context.services if isinstance(context, AppContext) else None
    return services.step_id if isinstance(services, PartServices) else ""


def _of(step_id: str, event: Mapping[str, Any]) -> dict[str, Any]:
    """The event of a part: an error ends the part and not the task."""
    data = {**event["data"], "final": False} if event["type"] == "error" else event["data"]
    return {**event, "step_id": step_id, "data": data}
