"""A tool's check that fails, hangs, or answers from before the effect."""

import time
from collections.abc import Mapping
from typing import Any

from ..core.tools import Tool
from ..tools.bound_tool import NOT_DONE, BoundTool, Marked, run_in_thread
from .lines import Lines, fail
from .traps import ANY, Files, Journal, Network

HANGS = 1.5
"""Seconds that Segue waits for a check that hangs."""


def has_check(tool: Tool) -> bool:
    """Whether the tool can say what came of an interrupted call."""
    if isinstance(tool, BoundTool):
        return tool.effect_check is not None
    return isinstance(tool, Marked) and type(tool).check_effect is not Marked.check_effect


def said(answer: Any) -> Any:
    """An answer as the journal has it."""
    is_json = answer is None or isinstance(answer, dict | list | str | int | float | bool)
    return answer if is_json else str(answer)


class FaultyCheck:
    """The check of a call, with the fault that befalls it in this process."""

    def __init__(self, tool: Tool, fault: str, label: str) -> None:
        self._tool: Any = tool
        self._fault = fault
        self._label = label
        self._is_asked = False

    @property
    def timeout(self) -> float | None:
        """How long Segue waits for its answer, where it hangs; None for the call itself."""
        return HANGS if self._fault == "check-hangs" and not self._is_asked else None

    async def keep(self, arguments: Mapping[str, Any], journal: Journal) -> None:
        """Ask it before the call, and keep what it answers."""
        answer = await self._tool.check_effect(arguments)
        journal.write("stale", label=self._label, answer=said(answer), not_done=answer is NOT_DONE)

    async def ask(self, arguments: Mapping[str, Any], journal: Journal, network: Network, files: Files) -> Any:
        """What it answers after the process was killed."""
        self._is_asked = True
        if self._fault == "check-stale":
            kept = next(line for line in journal.lines if line["moment"] == "stale")
            return NOT_DONE if kept["not_done"] else kept["answer"]
        if self._fault not in ("check-fails", "check-hangs"):
            return await self._tool.check_effect(arguments)
        lines, network.refused = Lines(), ANY if self._fault == "check-fails" else ""
        network.silent, lost = not network.refused, files.is_lost.set(bool(network.refused))
        network.watch()
        try:
            with lines.watched():
                answer = await self._tool.check_effect(arguments)
        finally:
            files.is_lost.reset(lost)
            network.refused, network.silent = "", False
        if network.was_asked or files.was_asked:
            return answer
        return await self._failed(arguments, lines.count)

    async def _failed(self, arguments: Mapping[str, Any], last: int) -> Any:
        """A check that asks neither host nor database fails in its last line, or does not come to its end."""
        if self._fault == "check-hangs":
            return await run_in_thread("check", lambda: time.sleep(60))
        with Lines((last,), fail).watched():
            return await self._tool.check_effect(arguments)
