"""What a turn is about: the user's latest message, what was added to it since, and what was said before it."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from segue.core.errors import InvalidMessage

STEER = "steer"
"""Marks a user's message that was added to a task under way and began none."""


def steers(message: AnyMessage) -> bool:
    """Whether the message was added to a task under way."""
    return message.type == "human" and bool(message.additional_kwargs.get(STEER))


def _place(messages: Sequence[AnyMessage]) -> int:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].type == "human" and not steers(messages[place]):
            return place
    raise InvalidMessage('There is no user message: invoke the graph with {"messages": [("user", "…")]}.')


def objective_of(messages: Sequence[AnyMessage]) -> str:
    """The text of the latest user message.

    Raises:
        InvalidMessage: there is none, or it is empty.
    """
    text = messages[_place(messages)].text.strip()
    if not text:
        raise InvalidMessage("The message is empty: write what you want to be done.")
    return text


def additions(messages: Sequence[AnyMessage]) -> list[str]:
    """What was added to the latest user message since, oldest first."""
    return [message.text for message in messages[_place(messages) :] if steers(message)]


def before_objective(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages of earlier turns."""
    return list(messages[: _place(messages)])
