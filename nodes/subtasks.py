"""Subtasks that are added to a lifecycle run while it is under way: by a subtask that runs, or from outside."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from segue.core.calls import CallResult
from segue.core.events import Durable, Lifecycle, PlanUpdate
from segue.core.lifecycle import SPAWN, SPAWNED, EngineEventType, SubTask, count_spawned, spawn, spawn_all
from segue.core.plan import Status

from .context import NodeContext, calls_in

logger = logging.getLogger(__name__)


class Spawner:
    """Adds subtasks to the run of the subtask that is carried out, within its share of what is left of the limit."""

    def __init__(self, work: NodeContext, task_id: str, parent: str, steps: Sequence[Mapping[str, Any]]) -> None:
        self._work = work
        self._task_id = task_id
        self._prefix = f"{parent}."
        self._tasks = [SubTask(**step) for step in steps]
        wave = [task.step_id for task in self._tasks if task.status is Status.RUNNING] or [parent]
        left = work.agent.budget.subtasks - count_spawned(self._tasks)
        place = wave.index(parent) if parent in wave else 0
        self._most = count_spawned(self._tasks) + (left + len(wave) - 1 - place) // len(wave)
        self._given: dict[str, SubTask] = {}

    async def __call__(self, item: Mapping[str, Any]) -> SubTask:
        await self._recall()
        known = [*self._tasks, *self._given.values()]
        added = spawn(known, {**item, "id": f"{self._prefix}{len(self._given) + 1}"}, self._most)
        self._given[added.step_id] = added
        return added

    async def added(self, messages: Iterable[AnyMessage]) -> list[dict[str, Any]]:
        """What the subtask added; without a ledger, what it added before a pause is in its messages."""
        await self._recall()
        for item in () if self._work.services.ledger else _spawned_in(messages):
            self._given.setdefault(item["id"], SubTask(**item))
        return [task.public for task in self._given.values()]

    async def _recall(self) -> None:
        """Know what an earlier process had this subtask add."""
        ledger = self._work.services.ledger
        for call in await ledger.finished() if ledger else ():
            if call.name == SPAWN and call.task_id == self._task_id:
                value = CallResult.of(call.outcome or {}).value
                if isinstance(value, Mapping) and str(value.get("id")).startswith(self._prefix):
                    self._given.setdefault(str(value["id"]), SubTask(**value))


def _spawned_in(messages: Iterable[AnyMessage]) -> list[dict[str, Any]]:
    """The subtasks that the calls among messages added."""
    texts = [CallResult.of(call["result"]).value for call in calls_in([*messages]) if call["name"] == SPAWN]
    return [json.JSONDecoder().raw_decode(text)[0] for text in texts if text]


async def add_spawned(
    tasks: tuple[SubTask, ...], outcomes: Iterable[Mapping[str, Any]], work: NodeContext, task_id: str
) -> tuple[tuple[SubTask, ...], list[SubTask]]:
    """The tasks with those that subtasks and people added since, and these alone."""
    given = [item for outcome in outcomes for item in outcome.get(SPAWNED, ())]
    items = (*given, *await work.services.subtasks(task_id))
    added, refused = spawn_all(tasks, items, work.agent.budget.subtasks)
    for error in refused:
        logger.warning("A subtask was not added to task %s: %s", task_id, error)
    return (*tasks, *added), added


def spawned_events(task_id: str, goal: str, added: Sequence[SubTask], tasks: Sequence[SubTask]) -> list[Durable]:
    """The plan with what was added, and an event for each of that."""
    if not added:
        return []
    steps = [task.model_dump(mode="json") for task in tasks]
    events: list[Durable] = [PlanUpdate(task_id=task_id, goal=goal, steps=steps)]
    for task in added:
        scheduled = {"task_id": task.step_id, "priority": task.priority}
        needs = {"dependencies": list(task.depends_on), "task_count": len(tasks)}
        about = {**scheduled, "description": task.description, **needs}
        for kind, details in ((EngineEventType.TASK_SPAWNED, about), (EngineEventType.TASK_SCHEDULED, scheduled)):
            events.append(Lifecycle(task_id=task_id, event_type=kind.value, details=details))
    return events
