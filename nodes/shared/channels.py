"""The channels that grow: a thread's messages and a task's records, kept as a log of what was added."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Annotated, Any, cast

from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langgraph.channels import DeltaChannel, EphemeralValue
from langgraph.types import Overwrite


def extend_messages(history: list[BaseMessage], writes: Sequence[Any]) -> list[BaseMessage]:
    """Append messages; one with an id that is there already replaces it. A missing id becomes the message's place."""
    grown = _converted(history)
    taken = set(map(_id, grown))
    for write in writes:
        for given in convert_to_messages(write if isinstance(write, list) else [write]):
            message = given if given.id else given.model_copy(update={"id": f"m{len(grown)}"})
            if message.id in taken:
                grown[max(place for place, other in enumerate(grown) if other.id == message.id)] = message
            else:
                taken.add(message.id)
                grown.append(message)
    return grown


_id = attrgetter("id")


def _converted(history: list[BaseMessage]) -> list[BaseMessage]:
    """A new list, its entries converted where they are no messages yet: looking at each of them takes long."""
    kinds = set(map(type, history))
    return [*history] if all(issubclass(kind, BaseMessage) for kind in kinds) else convert_to_messages(history)


def extend_records(records: list[dict[str, Any]], writes: Sequence[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Append records."""
    return [*records, *(record for write in writes for record in write)]


def replaced(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The write that puts these records in place of all that were there."""
    return cast(list[dict[str, Any]], Overwrite(records))


class EventsChannel(EphemeralValue[Any]):
    """A node's events: they go with its update to the saver and to streams, and are kept by the event log alone."""

    def update(self, values: Sequence[Any]) -> bool:
        return False


History = Annotated[list[AnyMessage], DeltaChannel(extend_messages)]
Records = Annotated[list[dict[str, Any]], DeltaChannel(extend_records)]
Events = Annotated[list[dict[str, Any]], EventsChannel(list, guard=False)]
