"""What a turn is about: the user's latest message, and what was said before it."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from segue.errors import InvalidMessage


def _place(messages: Sequence[AnyMessage]) -> int:
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].type == "human":
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


def before_objective(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The messages of earlier turns."""
    return list(messages[: _place(messages)])
