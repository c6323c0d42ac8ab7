"""Tools with effects outside the database: a line in a file, on the disk before the tool returns."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from segue import NOT_DONE, CallContext, tool
from segue.testing.chaos.traps import append_line

Reach = Callable[[str], None]
Linger = Callable[[str], Awaitable[None]]


class Effects:
    """The file of effects. A line is {"moment": start | effect, "kind", "tool", "label", "pid"}.

    `kind` says how often the effect may happen: `once`, `checked` (once, as its tool has a check), `again` (idempotent)
    or `reading` (it changes nothing).
    """

    def __init__(self, path: Path, reach: Reach) -> None:
        self._path = path
        self._reach = reach

    def cause(self, kind: str, name: str, label: str) -> None:
        """Have the effect, with the points before and after it."""
        self._write("start", kind, name, label)
        self._reach(f"tool:{label}:before")
        self._write("effect", kind, name, label)
        self._reach(f"tool:{label}:after")

    def cause_once(self, key: str, name: str, label: str) -> None:
        """Have the effect, as a service has it that refuses a key that it has seen."""
        self._write("start", "checked", name, label)
        self._reach(f"tool:{label}:before")
        if not self.happened(key):
            self._write("effect", "checked", name, label, key)
        self._reach(f"tool:{label}:after")

    def happened(self, key: str) -> bool:
        """Whether the effect of the call with this key happened."""
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        return any(json.loads(line).get("key") == key for line in lines)

    def _write(self, moment: str, kind: str, name: str, label: str, key: str = "") -> None:
        about = {"key": key} if key else {}
        line = {"moment": moment, "kind": kind, "tool": name, "label": label, "pid": os.getpid(), **about}
        append_line(self._path, line)


async def a_moment(_: str) -> None:
    await asyncio.sleep(0.002)


def tools_over(effects: Effects, linger: Linger = a_moment) -> tuple[Any, ...]:
    """The tools of the agent that is crashed; `label` is the same in every run of a scenario, whatever its ids.

    `linger` is awaited once a value was set.
    """

    def deposit(label: str, amount: int) -> str:
        """Pay an amount in; twice would be wrong. It runs in a thread."""
        effects.cause("once", "deposit", label)
        return f"{amount} paid in for {label}"

    async def unsend(label: str) -> str:
        effects.cause("once", "unsend", f"un{label}")
        return f"took back {label}"

    @tool(undo=unsend)
    async def send(label: str, text: str) -> str:
        """Send a letter; twice would be wrong. It runs in the event loop."""
        await asyncio.sleep(0.002)
        effects.cause("once", "send", label)
        return f"sent {label}: {text}"

    def was_transferred(label: str, amount: int, call: CallContext) -> Any:
        return f"{amount} transferred for {label}" if effects.happened(call.idempotency_key) else NOT_DONE

    @tool(check=was_transferred)
    def transfer(label: str, amount: int, call: CallContext) -> str:
        """Transfer an amount; twice would be wrong, and the bank can be asked."""
        effects.cause_once(call.idempotency_key, "transfer", label)
        return f"{amount} transferred for {label}"

    @tool(needs_approval=True)
    async def spend(label: str, amount: int) -> str:
        """Spend an amount, if a person approves."""
        effects.cause("once", "spend", label)
        return f"{amount} spent on {label}"

    @tool(idempotent=True)
    async def put(label: str, value: str) -> str:
        """Set a value; twice is the same as once."""
        effects.cause("again", "put", label)
        await linger(label)
        return f"{label} is {value}"

    @tool(read_only=True)
    async def look(label: str) -> dict[str, str]:
        """Look something up."""
        await asyncio.sleep(0.002)
        effects.cause("reading", "look", label)
        return {"found": f"{label}!"}

    def break_(label: str) -> str:
        """Fail before anything happens."""
        raise ValueError(f"{label} is broken")

    break_.__name__ = "break_down"
    return (deposit, send, transfer, spend, put, look, break_)
