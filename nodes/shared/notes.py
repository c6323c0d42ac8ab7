"""A person's additions to an unfinished task, which the next node takes up."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from langchain_core.messages import HumanMessage
from typing_extensions import TypedDict

from .context import NodeContext
from .task import STEER


class Added(TypedDict, total=False):
    """The update of a node that takes additions up; empty where there are none."""

    messages: list[Any]
    objective: str
    notes: int


State = TypeVar("State", bound=Mapping[str, Any])


async def take_up(state: Mapping[str, Any], work: NodeContext) -> Added:
    """What was added since the last look: the objective with it, and the messages for the history."""
    taken = state.get("notes", 0)  # a checkpoint of an earlier version has none
    fresh = (await work.services.notes(state["task_id"]))[taken:]
    if not fresh:
        return {}
    return {
        "messages": [HumanMessage(note, additional_kwargs={STEER: True}) for note in fresh],
        "objective": "\n".join([state["objective"], *fresh]),
        "notes": taken + len(fresh),
    }


def amended(state: State, added: Mapping[str, Any]) -> State:
    """The state as it will be with the update."""
    messages = [*state["messages"], *added.get("messages", ())]
    return cast(State, {**cast(dict[str, Any], state), **added, "messages": messages})
