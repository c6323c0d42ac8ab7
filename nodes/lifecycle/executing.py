"""EXECUTING: fold in what was carried out, then pick the tasks that begin next."""

from collections.abc import Iterable, Sequence
from typing import Any

from segue.core.events import Durable
from segue.core.lifecycle import EngineEventType, EngineState, SubTask, next_tasks, unreachable_tasks
from segue.core.usage import add_usages
from segue.prompts.catalogue import phrase

from ..shared.context import NodeRuntime, announce, node_context
from ..shared.plan_progress import begin_steps, skip_steps, step_event
from .events import as_steps, changed, completed, ended, engine_event, tasks_of
from .state import LifecycleNode, LifecycleState


def executing(concurrency: int) -> LifecycleNode:
    """The node that has so many tasks carried out at once."""

    async def node(state: LifecycleState, runtime: NodeRuntime) -> LifecycleState:
        """Skip tasks that need a failed one and start those that are ready; the run completes when none is left."""
        if runtime.drain_requested:
            return {"held": True}
        folded = _fold(state)
        tasks, lost = _skip(folded_tasks(state), state["language"])
        update: LifecycleState = {**folded, "steps": as_steps(tasks), "wave": []}
        events = [event for task in lost for event in _skipped_events(state["task_id"], task, tasks)]
        begins = next_tasks(tasks)[:concurrency]
        if begins and (spent := _spent(state, runtime)):
            failure = {"error": spent, "phase": state["phase"], "limit": "seconds"}
            return {**update, "failure": failure, "events": announce(*events)}
        if not begins:
            events.append(changed(state["task_id"], state["phase"], EngineState.COMPLETED))
            return {**update, "phase": EngineState.COMPLETED.value, "events": announce(*events)}
        wave = [task.step_id for task in begins]
        tasks = begin_steps(tasks, wave)
        events += [event for task in _named(tasks, wave) for event in _begun_events(state["task_id"], task)]
        return {**update, "steps": as_steps(tasks), "wave": wave, "events": announce(*events)}

    return node


def _new_outcomes(state: LifecycleState) -> list[dict[str, Any]]:
    return state["outcomes"][state["folded"] :]


def folded_tasks(state: LifecycleState) -> tuple[SubTask, ...]:
    """The tasks with what was carried out since they were last looked at."""
    return ended(tasks_of(state["steps"]), _new_outcomes(state))


def _fold(state: LifecycleState) -> LifecycleState:
    fresh = _new_outcomes(state)
    return {
        "folded": len(state["outcomes"]),
        "results": state["results"] | {o["step_id"]: o["answer"] for o in fresh if not o["error"]},
        "calls": state["calls"] | {o["step_id"]: o["calls"] for o in fresh if o["calls"]},
        "usage": add_usages([state["usage"], *(outcome["usage"] for outcome in fresh)]),
    }


def _skip(tasks: tuple[SubTask, ...], language: str) -> tuple[tuple[SubTask, ...], list[SubTask]]:
    lost = unreachable_tasks(tasks)
    notes = {name: phrase("lifecycle_needs", language, tasks=", ".join(needs)) for name, needs in lost.items()}
    tasks = skip_steps(tasks, notes)
    return tasks, _named(tasks, lost)


def _named(tasks: Sequence[SubTask], names: Iterable[str]) -> list[SubTask]:
    """The tasks of these ids, in the ids' order."""
    by_id = {task.step_id: task for task in tasks}
    return [by_id[name] for name in names]


def _skipped_events(task_id: str, task: SubTask, tasks: Sequence[SubTask]) -> list[Durable]:
    progress = completed(tasks) / len(tasks)
    details = {"task_id": task.step_id, "error": task.note, "progress": progress, "skipped": True}
    return [step_event(task, {"task_id": task_id}), engine_event(task_id, EngineEventType.TASK_FAILED, details)]


def _begun_events(task_id: str, task: SubTask) -> list[Durable]:
    details = {"task_id": task.step_id, "description": task.description}
    return [step_event(task, {"task_id": task_id}), engine_event(task_id, EngineEventType.TASK_STARTED, details)]


def _spent(state: LifecycleState, runtime: NodeRuntime) -> str:
    work = node_context(runtime)
    if work.seconds_since(state["started_at"]) <= work.agent.budget.seconds:
        return ""
    return phrase("spent_seconds", state["language"], n=f"{work.agent.budget.seconds:g}")
