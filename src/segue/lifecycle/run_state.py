"""The state of an engine's run, folded from its events, and its snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.errors import SegueError
from ..core.events import Event, Lifecycle, ToolResult
from ..core.lifecycle import MOST_TASKS, EngineEvent, EngineEventType, EngineState, SubTask, moved
from ..core.plan import Status, problems
from ..nodes.lifecycle.state import Restored

VERSION = 1
"""Of the snapshots that this module writes; older ones are read, newer ones refused."""

KINDS = ("rules", "knowledge", "tools")
_T = EngineEventType
_WORDS = {"completed": "done", "complete": "done", "failed": "error", "in_progress": "running", "executing": "running"}
"""Other words for a task's status, as snapshots of other engines have them."""


class InvalidSnapshot(SegueError):
    """A snapshot cannot be restored; the engine stays as it was."""


@dataclass
class RunState:
    """What is known of a run: enough to say how far it is, and to go on with it elsewhere."""

    input: str = ""
    tasks: tuple[SubTask, ...] = ()
    results: dict[str, str] = field(default_factory=dict)
    calls: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The calls that each task made: {name, arguments, result}."""
    context: dict[str, list[str]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return len(self.tasks)

    @property
    def completed(self) -> int:
        return sum(task.status is Status.DONE for task in self.tasks)

    @property
    def progress(self) -> float:
        """From 0 to 1; 0 while no task is known."""
        return self.completed / self.total if self.total else 0.0

    def apply(self, event: Event) -> EngineEvent | None:
        """Apply an event; returns it as the engine yields it, or None where it yields nothing for it."""
        if isinstance(event, ToolResult) and event.step_id:
            call = {"name": event.name, "arguments": event.arguments, "result": event.result}
            self.calls.setdefault(event.step_id, []).append(call)
        if not isinstance(event, Lifecycle):
            return None
        kind, data = _T(event.event_type), dict(event.details)
        self._fold(kind, data)
        if kind in (_T.TASK_COMPLETED, _T.TASK_FAILED):
            data["progress"] = self.progress
        return EngineEvent(kind, data, event.timestamp)

    def _fold(self, kind: EngineEventType, data: Mapping[str, Any]) -> None:
        match kind:
            case _T.CONTEXT_RECEIVED:
                self.context = {name: list(data.get(name, ())) for name in KINDS}
            case _T.TASK_DECOMPOSED:
                known = {task.step_id: task for task in self.tasks}
                self.tasks = tuple(known.get(task["id"]) or SubTask(**task) for task in data["tasks"])
            case _T.TASK_STARTED:
                self._move(data["task_id"], Status.RUNNING)
            case _T.TASK_COMPLETED:
                self._move(data["task_id"], Status.DONE)
                self.results[data["task_id"]] = str(data["result"])
            case _T.TASK_FAILED:
                status = Status.SKIPPED if data.get("skipped") else Status.ERROR
                self._move(data["task_id"], status, str(data["error"]))
            case _:
                pass

    def _move(self, task_id: str, status: Status, note: str = "") -> None:
        self.tasks = moved(self.tasks, task_id, status, note)

    def remaining(self, phase: EngineState) -> Restored:
        """What the graph needs to go on with this run elsewhere."""
        return {
            "phase": phase.value,
            "context": self.context,
            "steps": [task.model_dump(mode="json") for task in self.tasks],
            "results": self.results,
            "calls": {task_id: [{**call, "ref": ""} for call in made] for task_id, made in self.calls.items()},
        }

    def snapshot(self) -> dict[str, Any]:
        """The run as JSON values."""
        return {
            "version": VERSION,
            "progress": self.progress,
            "tasks": [_task_json(task) for task in self.tasks],
            "completed_tasks": self.completed,
            "total_tasks": self.total,
            "results": dict(self.results),
            "dependencies": {task.step_id: list(task.depends_on) for task in self.tasks},
            "input": self.input,
            "context": {name: list(texts) for name, texts in self.context.items()},
            "calls": {task_id: [dict(call) for call in made] for task_id, made in self.calls.items()},
        }


def _task_json(task: SubTask) -> dict[str, Any]:
    return {**task.public, "status": task.status.value, **({"note": task.note} if task.note else {})}


def read_snapshot(snapshot: Any) -> RunState:
    """The run that a snapshot describes.

    Raises:
        InvalidSnapshot: it is none, or one of a newer version.
    """
    if not isinstance(snapshot, Mapping):
        raise InvalidSnapshot("A snapshot is a dict, as create_snapshot gives it.")
    version = snapshot.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise InvalidSnapshot(
            "The snapshot has version {version} and this Segue knows up to {known}: upgrade it.",
            version=repr(version),
            known=VERSION,
        )
    try:
        needs = dict(snapshot.get("dependencies") or {})
        tasks = tuple(_task(item, needs) for item in snapshot["tasks"])
        run = RunState(
            input=str(snapshot.get("input") or "; ".join(task.description for task in tasks)),
            tasks=tasks,
            results={str(name): str(value) for name, value in dict(snapshot.get("results") or {}).items()},
            calls={str(name): [_call(c) for c in made] for name, made in dict(snapshot.get("calls") or {}).items()},
            context={
                name: [str(item) for item in texts]
                for name, texts in dict(snapshot.get("context") or {}).items()
                if name in KINDS
            },
        )
        _check(run, snapshot)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidSnapshot(
            "The snapshot cannot be read: {kind}: {error}.", kind=type(error).__name__, error=error
        ) from error
    return run


def _check(run: RunState, snapshot: Mapping[str, Any]) -> None:
    if run.tasks and (found := problems(run.tasks, max_steps=MOST_TASKS)):
        raise ValueError("; ".join(found))
    for name, counted in (("completed_tasks", run.completed), ("total_tasks", run.total)):
        if name in snapshot and snapshot[name] != counted:
            raise ValueError(f"{name} is {snapshot[name]!r} and its tasks say {counted}")


def _task(item: Mapping[str, Any], needs: Mapping[str, Any]) -> SubTask:
    status = str(item.get("status", "pending"))
    given = {**item, "status": Status(_WORDS.get(status, status))}
    given.setdefault("dependencies", needs.get(str(item["id"]), ()))
    return SubTask(**given)


def _call(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": str(item["name"]), "arguments": dict(item["arguments"]), "result": dict(item["result"])}
