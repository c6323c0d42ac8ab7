"""Simulated systems behind workflows: a state that is JSON, and the functions that read and change it."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ....core.records import Json

Function = Callable[..., Any]
"""Takes the state, which it may change, and the call's arguments; returns JSON data, or raises `Refused`."""

BAD_REQUEST, FORBIDDEN, NOT_FOUND, CONFLICT = 400, 403, 404, 409


class Refused(Exception):
    """The system declines a call; nothing was changed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Response:
    """The answer to a call, and the state after it."""

    status_code: int
    data: Any
    state: Json


@dataclass(frozen=True)
class Backend:
    """A simulated system: `initial` makes its state from a seed, `apis` are its functions by name."""

    name: str
    initial: Callable[[int], Json]
    apis: Mapping[str, Function]

    def call(self, state: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> Response:
        """Carry out a call on a copy of the state; one that is refused changes nothing."""
        if name not in self.apis:
            names = ", ".join(self.apis)
            return Response(BAD_REQUEST, {"error": f"There is no API '{name}'; use one of: {names}."}, dict(state))
        changed = deepcopy(dict(state))
        try:
            data = self.apis[name](changed, **arguments)
        except Refused as refused:
            return Response(refused.status, {"error": str(refused)}, dict(state))
        return Response(200, data, changed)
