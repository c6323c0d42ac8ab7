"""Tools that give back what the recording says they gave."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool

ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}


@dataclass(frozen=True)
class RecordedCall:
    """A call and what came of it: a result, or an error that the tool raises."""

    name: str
    arguments: Mapping[str, Any]
    result: Any = None
    error: str = ""


class RecordedFailure(Exception):
    """What the recording says that the tool raised."""


class OutOfTurn(Exception):
    """A call that the recording does not have at this place."""


class RecordedTools:
    """Calls are answered in the recorded order and in no other; `ran` is what really ran, as (name, arguments)."""

    def __init__(self, calls: Iterable[RecordedCall]) -> None:
        self._left = deque(calls)
        self.ran: list[tuple[str, dict[str, Any]]] = []

    def named(self, names: Iterable[str]) -> tuple[BaseTool, ...]:
        return tuple(self._tool(name) for name in names)

    def _tool(self, name: str) -> BaseTool:
        async def run(**arguments: Any) -> Any:
            return self._answer(name, arguments)

        return StructuredTool(name=name, description=f"The recorded {name}.", args_schema=ANYTHING, coroutine=run)

    def _answer(self, name: str, arguments: dict[str, Any]) -> Any:
        self.ran.append((name, arguments))
        call = self._left.popleft() if self._left else None
        if call is None or (name, arguments) != (call.name, call.arguments):
            raise OutOfTurn(f"{name} was called where the recording has {call.name if call else 'no call'}.")
        if call.error:
            raise RecordedFailure(call.error)
        return call.result
