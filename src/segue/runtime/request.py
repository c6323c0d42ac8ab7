"""A message and its options."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Self, TypedDict

from ..core.errors import InvalidMessage, UnknownOption


class MessageOptions(TypedDict, total=False):
    """The options of `App.start`, `App.chat` and `App.ask`."""

    session_id: str | None
    """The conversation; a new one where none is named."""
    agent: str
    """The id of a registered agent; empty: the first one."""
    mode: str
    """A built-in mode, one of your own, or auto; empty: the user's preferred mode, then the agent's."""
    user_id: str
    """Whose preferences apply."""
    model: str
    """A model in place of the agent's own."""
    wait: float
    """Seconds to wait if the session is busy."""
    steer: bool
    """Add the message to the session's unfinished task, if there is one."""
    language: str
    """zh or en, where the agent names none; empty: SEGUE_LANGUAGE, else that of the message."""


@dataclass(frozen=True)
class Request:
    """A message and its options."""

    message: str
    session_id: str | None = None
    agent: str = ""
    mode: str = ""
    user_id: str = "default"
    model: str = ""
    wait: float = 0.0
    steer: bool = False
    language: str = ""

    @classmethod
    def of(cls, message: Any, options: Mapping[str, Any]) -> Self:
        """What a caller asks for; a member of an enum stands for its value.

        Raises:
            InvalidMessage, UnknownOption.
        """
        if not isinstance(message, str):
            raise InvalidMessage("The message is {kind}, not text: pass a str.", kind=type(message).__name__)
        known = [field.name for field in fields(cls) if field.name != "message"]
        if unknown := sorted(options.keys() - set(known)):
            raise UnknownOption(unknown[0], known)
        given = {name: value.value if isinstance(value, Enum) else value for name, value in options.items()}
        return cls(message, **{name: value for name, value in given.items() if value is not None})
