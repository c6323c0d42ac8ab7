"""The ledger of one subtask: it knows which calls are under way, so that none is left so when its time runs out."""

from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.ports import CallKey, Claim, Ledger, Tool
from segue.tools.calls.run import unknown_outcome


class PartLedger:
    """Passes everything on to the whole task's ledger."""

    def __init__(self, whole: Ledger) -> None:
        self._whole = whole
        self._under_way: dict[CallKey, str] = {}

    async def read(self, key: CallKey) -> Mapping[str, Any] | None:
        return await self._whole.read(key)

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any]) -> Claim:
        claim = await self._whole.claim(key, name, arguments)
        if claim.state != "finished":
            self._under_way[key] = name
        return claim

    async def settle(self, key: CallKey, outcome: Mapping[str, Any]) -> None:
        await self._whole.settle(key, outcome)
        self._under_way.pop(key, None)

    async def unknown(self, task_id: str) -> Sequence[Mapping[str, Any]]:
        return await self._whole.unknown(task_id)

    async def give_up(self, tools: Mapping[str, Tool], why: str) -> None:
        """Settle the calls that were cut off: of one that changes something, nobody knows whether it did."""
        for key, name in list(self._under_way.items()):
            tool = tools.get(name)
            harmless = tool is not None and (tool.read_only or tool.idempotent)
            await self.settle(key, {"error": why} if harmless else unknown_outcome(f"{name}: {why}"))
