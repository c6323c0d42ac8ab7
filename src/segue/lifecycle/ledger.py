"""A ledger in memory: no call is run twice while its process lives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.ports import CallKey, Claim


@dataclass
class _Call:
    name: str
    arguments: Mapping[str, Any]
    outcome: Mapping[str, Any] | None = None


class MemoryLedger:
    """The `Ledger` of an engine that keeps nothing in a database."""

    def __init__(self) -> None:
        self._calls: dict[CallKey, _Call] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        call = self._calls.get(key)
        return None if call is None else {"name": call.name, "arguments": call.arguments, "outcome": call.outcome}

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any]) -> Claim:
        known = self._calls.get(key)
        if known is not None:
            return Claim("interrupted") if known.outcome is None else Claim("finished", known.outcome)
        doubtful = {"name": name, "arguments": dict(arguments)} in await self.unknown(key.task_id)
        self._calls[key] = _Call(name, dict(arguments))
        return Claim("doubtful" if doubtful else "fresh")

    async def settle(self, key: CallKey, outcome: Mapping[str, Any]) -> None:
        self._calls[key].outcome = dict(outcome)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return [
            {"name": call.name, "arguments": call.arguments}
            for key, call in self._calls.items()
            if key.task_id == task_id and (call.outcome or {}).get("unknown_outcome")
        ]
