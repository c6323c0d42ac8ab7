"""Function calls: the specs a model is given, and what it writes, kept as raw text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from ..core.json_schema import plain_schema
from ..core.ports import RawCall


def plain_specs(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tool specs as OpenAI has them: without the `segue` key, and without what in a schema only Segue reads."""
    return [{"type": "function", "function": _plain_function(tool["function"])} for tool in tools]


def _plain_function(function: Mapping[str, Any]) -> dict[str, Any]:
    return dict(function) | {
        "parameters": plain_schema(function.get("parameters") or {"type": "object", "properties": {}})
    }


@dataclass
class _Growing:
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class GrowingCalls:
    """Function calls put together from their pieces, in order of arrival."""

    def __init__(self) -> None:
        self._calls: list[_Growing] = []
        self._at: dict[object, _Growing] = {}

    def add(self, index: object, call_id: str, name: str, arguments: str) -> str:
        """Take in a piece; say the call's name where it is new.

        A piece without index belongs to the last call. Another id makes another call, even under an index that is
        taken: there are endpoints that give every call the index 0.
        """
        call = self._at.get(index) if index is not None else self._calls[-1] if self._calls else None
        if call is None or (call_id and call.id and call_id != call.id):
            call = _Growing(call_id)
            self._calls.append(call)
            self._at[index] = call
        call.id = call.id or call_id
        call.arguments.append(arguments)
        if call.name or not name:
            return ""
        call.name = name
        return name

    def whole(self) -> tuple[RawCall, ...]:
        """The calls as written; one that came without an id gets one, because results are paired by it."""
        return tuple(
            RawCall(id=call.id or f"call_{uuid4().hex}", name=call.name, arguments="".join(call.arguments))
            for call in self._calls
        )


def as_text(arguments: object) -> str:
    """Arguments as text: as written where they are text, else as JSON."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
