"""The state of an engine's run, which is the projection of its events, and its snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..core.clause import Clause, together
from ..core.errors import SegueError
from ..core.events import Event, Lifecycle, PlanUpdate, ToolResult
from ..core.lifecycle import MOST_TASKS, EngineEvent, EngineEventType, EngineState, SubTask
from ..core.plan import Status, problems
from ..nodes.lifecycle.state import Restored
from ..runtime.projection import CONTEXT_KINDS, PlanItem, Projection

VERSION = 1
"""Of the snapshots that this module writes; older ones are read, newer ones refused."""

_T = EngineEventType
_WORDS = {"completed": "done", "complete": "done", "failed": "error", "in_progress": "running", "executing": "running"}
"""Other words for a task's status, as snapshots of other engines have them."""


class InvalidSnapshot(SegueError):
    """A snapshot cannot be restored; the engine stays as it was."""


@dataclass
class RunState:
    """How far a run is: its input, and the projection of its events."""

    input: str = ""
    known: Projection = field(default_factory=Projection)

    @property
    def tasks(self) -> tuple[SubTask, ...]:
        """The tasks with their present status."""
        return tuple(SubTask(**item.as_dict()) for item in self.known.plan.values())

    @property
    def results(self) -> dict[str, str]:
        """The results of the completed tasks, by their ids."""
        return {name: item.result for name, item in self.known.plan.items() if item.status == Status.DONE}

    @property
    def calls(self) -> dict[str, list[dict[str, Any]]]:
        """The calls that each task made: {name, arguments, result}."""
        return {name: [_made(call) for call in item.calls] for name, item in self.known.plan.items() if item.calls}

    @property
    def total(self) -> int:
        return len(self.known.plan)

    @property
    def completed(self) -> int:
        return sum(item.status == Status.DONE for item in self.known.plan.values())

    @property
    def progress(self) -> float:
        """From 0 to 1; 0 while no task is known."""
        return self.completed / self.total if self.total else 0.0

    def apply(self, event: Event) -> EngineEvent | None:
        """Apply an event; returns it as the engine yields it, or None where it yields nothing for it."""
        before = self.known.plan
        self.known.fold(event)
        if isinstance(event, PlanUpdate):  # a goal that is broken down again keeps the calls of its tasks
            for name, item in self.known.plan.items():
                item.calls = item.calls or (before[name].calls if name in before else [])
        if not isinstance(event, Lifecycle):
            return None
        kind, data = _T(event.event_type), dict(event.details)
        if kind in (_T.TASK_COMPLETED, _T.TASK_FAILED):
            data["progress"] = self.progress
        return EngineEvent(kind, data, event.timestamp)

    def remaining(self, phase: EngineState) -> Restored:
        """What the graph needs to continue this run elsewhere."""
        return {
            "phase": phase.value,
            "context": self.known.context,
            "steps": [task.model_dump(mode="json") for task in self.tasks],
            "results": self.results,
            "calls": {task_id: [{**call, "ref": ""} for call in calls] for task_id, calls in self.calls.items()},
        }

    def snapshot(self) -> dict[str, Any]:
        """The run as JSON values."""
        return {
            "version": VERSION,
            "progress": self.progress,
            "tasks": [_task_json(task) for task in self.tasks],
            "completed_tasks": self.completed,
            "total_tasks": self.total,
            "results": self.results,
            "dependencies": {task.step_id: list(task.depends_on) for task in self.tasks},
            "input": self.input,
            "context": {name: list(texts) for name, texts in self.known.context.items()},
            "calls": self.calls,
        }


def _task_json(task: SubTask) -> dict[str, Any]:
    return {**task.public, "status": task.status.value, **({"note": task.note} if task.note else {})}


def read_snapshot(snapshot: Any) -> RunState:
    """The run that a snapshot describes.

    Raises:
        InvalidSnapshot: it is none, or one of a newer version.
    """
    if not isinstance(snapshot, Mapping):
        raise InvalidSnapshot("A snapshot must be a dict returned by create_snapshot.")
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
        results = {str(name): str(value) for name, value in dict(snapshot.get("results") or {}).items()}
        calls = {str(name): [_call(c) for c in made] for name, made in dict(snapshot.get("calls") or {}).items()}
        context = dict(snapshot.get("context") or {}).items()
        known = Projection(
            plan={task.step_id: _item(task, results, calls) for task in tasks},
            context={name: [str(item) for item in texts] for name, texts in context if name in CONTEXT_KINDS},
        )
        run = RunState(str(snapshot.get("input") or "; ".join(task.description for task in tasks)), known)
        if len(tasks) != run.total:
            raise ValueError(str(together(problems(tasks, max_steps=MOST_TASKS))))
        _check(run, snapshot)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidSnapshot("The snapshot cannot be read: {why}.", why=_why(error)) from error
    return run


def _why(error: Exception) -> str | Clause:
    """What is wrong with a snapshot that led to this error."""
    if isinstance(error, KeyError):
        return Clause("{name} is missing", name=error)
    return (
        str(error)
        if isinstance(error, ValueError)
        else Clause("it does not have the form that create_snapshot returns")
    )


def _check(run: RunState, snapshot: Mapping[str, Any]) -> None:
    if run.tasks and (found := problems(run.tasks, max_steps=MOST_TASKS)):
        raise ValueError(str(together(found)))
    for name, counted in (("completed_tasks", run.completed), ("total_tasks", run.total)):
        if name in snapshot and snapshot[name] != counted:
            raise ValueError(f"{name} is {snapshot[name]!r} and its tasks say {counted}")


def _task(item: Mapping[str, Any], needs: Mapping[str, Any]) -> SubTask:
    status = str(item.get("status", "pending"))
    given = {**item, "status": Status(_WORDS.get(status, status))}
    given.setdefault("dependencies", needs.get(str(item["id"]), ()))
    return SubTask(**given)


def _item(task: SubTask, results: Mapping[str, str], calls: Mapping[str, list[ToolResult]]) -> PlanItem:
    return PlanItem(
        task.step_id,
        task.description,
        task.status.value,
        task.note,
        task.priority,
        result=results.get(task.step_id, ""),
        calls=calls.get(task.step_id, []),
        fields=task.model_dump(mode="json"),
    )


def _call(item: Mapping[str, Any]) -> ToolResult:
    name, arguments, result = str(item["name"]), dict(item["arguments"]), dict(item["result"])
    return ToolResult(task_id="", index=0, name=name, arguments=arguments, result=result)


def _made(call: ToolResult) -> dict[str, Any]:
    return {"name": call.name, "arguments": call.arguments, "result": call.result}
