"""Records of scenarios: a persona, the calls that its goal needs, and what they change."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic import Field

from ...core.records import Json
from .workflow import Record


class Persona(Record):
    """Who a simulated user is.

    `facts` are the values of the workflow's slots that the persona knows; a list is what it says the first time, the
    second time and so on. `volunteers` are the facts that its opening includes. `script` is the same conversation
    for a scripted user.
    """

    profile: str = Field(min_length=1)
    goal: str = Field(min_length=1)
    style: str = ""
    opening: tuple[str, ...] = Field(min_length=1)
    """Variants of the first message; the seed picks one."""
    requests: tuple[str, ...] = ()
    """What it asks for once the first request is settled."""
    facts: Mapping[str, str | tuple[str, ...]] = {}
    volunteers: tuple[str, ...] = ()
    script: tuple[str, ...] = ()


class ExpectedCall(Record):
    """A call that the persona's goal needs."""

    name: str
    arguments: Json = Field(default_factory=dict)


class Scenario(Record):
    """A persona, and what should come of the conversation; `changes` are the paths of the state that it changes."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    persona: Persona
    expected_calls: tuple[ExpectedCall, ...] = ()
    changes: Mapping[str, Any] = {}

    def expected_state(self, initial: Mapping[str, Any]) -> Json:
        """The backend's state after the conversation: the initial one with the changes made."""
        state: Json = deepcopy(dict(initial))
        for path, value in self.changes.items():
            *parents, last = path.split(".")
            inner = state
            for key in parents:
                inner = inner.setdefault(key, {})
            inner[last] = deepcopy(value)
        return state
