"""INIT: a new task on the thread, from a message or from the flow's own inputs."""

from typing import Any, cast

from langchain_core.messages import AnyMessage, HumanMessage

from ..shared.context import Node, NodeRuntime
from ..shared.task import given_steps, is_steering
from .state import ControllerState


def init(begin_plan: Node[Any, Any]) -> Node[ControllerState, ControllerState]:
    """The node, whose task begins as one of the plan graph does."""

    async def node(state: ControllerState, runtime: NodeRuntime) -> ControllerState:
        """Take the inputs in; a goal becomes the task's message."""
        messages, assignment = list(state.get("messages") or ()), state.get("assignment") or {}
        goal = str(state.get("goal") or "").strip()
        added = [HumanMessage(goal)] if goal and not _is_asked(messages) else []
        fresh = await begin_plan({**state, "messages": [*messages, *added]}, runtime)
        plan = fresh["plan"] or given_steps(state.get("plan"))
        return cast(
            ControllerState, {**fresh, "messages": added, "plan": plan, "branch": assignment.get("branch") or ""}
        )

    return node


def _is_asked(messages: list[AnyMessage]) -> bool:
    """Whether the last message is a person's that has no answer yet."""
    return bool(messages) and messages[-1].type == "human" and not is_steering(messages[-1])
