"""What goes into the modes' graphs and comes out of them, and what every INIT does first."""

from collections.abc import Mapping
from typing import Any, final

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict

from segue.prompts.language import language_of

from .channels import History
from .context import NodeRuntime, bench
from .objective import additions, objective_of


class Assignment(TypedDict, total=False):
    """What a parent graph hands down; INIT takes it in and clears it."""

    task_id: str
    plan: list[dict[str, Any]]
    """Steps to begin with."""
    done: list[dict[str, Any]]
    """Calls that another mode made for this task: {name, arguments, result, ref}."""
    usage: dict[str, Any]
    """What the task used so far."""
    started_at: float


class GraphInput(TypedDict, total=False):
    """What a graph that carries a task is invoked with."""

    messages: History
    assignment: Assignment | None


class TaskOutput(TypedDict):
    """What a graph returns that ends its task in any case."""

    messages: History
    result: dict[str, Any] | None


class ModeOutput(TaskOutput):
    """What a mode returns that another may take over from: `gave_up` says why."""

    gave_up: str
    usage: dict[str, Any]


@final
class Beginning(TypedDict):
    """The channels that every mode resets."""

    assignment: None
    task_id: str
    nested: bool
    objective: str
    language: str
    started_at: float
    usage: dict[str, Any]
    result: None


def begin(messages: list[AnyMessage], assignment: Mapping[str, Any] | None, runtime: NodeRuntime) -> Beginning:
    """Take the task's id from the parent graph or mint one, and read the objective with what was added to it.

    Raises:
        InvalidMessage: there is no user message, or it is empty.
    """
    services = bench(runtime).services
    asked = objective_of(messages)
    given = (assignment or {}).get("task_id")
    return {
        "assignment": None,
        "task_id": given or services.ids.task(),
        "nested": given is not None,
        "objective": "\n".join([asked, *additions(messages)]),
        "language": language_of(asked),
        "started_at": (assignment or {}).get("started_at") or services.clock(),
        "usage": dict((assignment or {}).get("usage") or {}),
        "result": None,
    }
