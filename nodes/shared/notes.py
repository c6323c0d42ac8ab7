"""A person's additions to an unfinished task, which the next node takes up."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from langchain_core.messages import HumanMessage
from typing_extensions import TypedDict

from segue.core.events import NotesTaken

from .context import NodeContext, announce
from .task import STEER


class Added(TypedDict, total=False):
    """The update of a node that takes additions up; empty where there are none."""

    messages: list[Any]
    objective: str
    notes: int
    events: list[dict[str, Any]]
    """That they were taken up; they go before the node's own."""


State = TypeVar("State", bound=Mapping[str, Any])


async def take_up(state: Mapping[str, Any], work: NodeContext) -> Added:
    """What was added since the last look: the objective with it, and the messages for the history."""
    taken = state["notes"]
    fresh = (await work.services.notes(state["task_id"]))[taken:]
    if not fresh:
        return {}
    ids = {name: state[name] for name in ("task_id", "trace_id", "iteration") if state.get(name)}
    return {
        "messages": [HumanMessage(note, additional_kwargs={STEER: True}) for note in fresh],
        "objective": "\n".join([state["objective"], *fresh]),
        "notes": taken + len(fresh),
        "events": announce(NotesTaken(count=taken + len(fresh), **ids)),
    }


def joined(added: State, update: State) -> State:
    """A node's update with what it took up, whose events go first."""
    events = [*added.get("events", ()), *update.get("events", ())]
    return cast(State, {**added, **update, "events": events})


def amended(state: State, added: Mapping[str, Any]) -> State:
    """The state as it will be with the update."""
    messages = [*state["messages"], *added.get("messages", ())]
    return cast(State, {**cast(dict[str, Any], state), **added, "messages": messages})
