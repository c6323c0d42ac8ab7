"""The part of a plan graph's state that the mode's nodes read, and their updates."""

from collections.abc import Awaitable
from typing import Any, Protocol

from langchain_core.messages import AnyMessage
from typing_extensions import TypedDict

from ..shared.context import NodeRuntime


class ControlledTask(TypedDict):
    """A task with its plan."""

    messages: list[AnyMessage]
    task_id: str
    nested: bool
    objective: str
    language: str
    started_at: float
    plan: list[dict[str, Any]]
    usage: dict[str, Any]


class CarriedOut(TypedDict):
    """The end of the task."""

    messages: list[AnyMessage]
    plan: list[dict[str, Any]]
    usage: dict[str, Any]
    result: dict[str, Any]
    events: list[dict[str, Any]]


class TaskNode(Protocol):
    """The node over one flow's graph."""

    def __call__(self, state: ControlledTask, runtime: NodeRuntime) -> Awaitable[CarriedOut]: ...
