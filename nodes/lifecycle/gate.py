"""A gate that lets a background graph advance only as far as its follower has come."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from langgraph.errors import GraphDrained

from segue.core.events import Lifecycle

from ..shared.context import NodeRuntime

POLL_SECONDS = 0.1
"""Seconds between two looks at whether a pause was requested."""

Node = TypeVar("Node", bound=Callable[..., Awaitable[Any]])


class Gate:
    """Closed until the follower has seen every event of the engine and asks for the next."""

    def __init__(self) -> None:
        self._unseen = 0
        self._asked = False
        self._moved = asyncio.Event()

    def ask(self) -> None:
        """The follower wants the next event."""
        self._asked = True
        self._moved.set()

    def acknowledge(self) -> None:
        """The follower has one of the engine's events."""
        self._unseen -= 1
        self._asked = False
        self._moved.set()

    def expect(self, count: int) -> None:
        """So many events are on their way."""
        self._unseen += count

    async def wait(self, runtime: NodeRuntime) -> None:
        """Wait until more is asked for, or a pause."""
        while (self._unseen > 0 or not self._asked) and not runtime.drain_requested:
            self._moved.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._moved.wait(), POLL_SECONDS)


GATE: ContextVar[Gate | None] = ContextVar("segue_gate", default=None)


def stepwise(node: Node, *, holds: bool = False) -> Node:
    """A node that waits at the gate of its run, if there is one.

    A pause that is asked for there comes before the node, unless the node `holds` itself.
    """

    @wraps(node)
    async def step(state: Any, runtime: NodeRuntime) -> Any:
        gate = GATE.get()
        if gate is None:
            return await node(state, runtime)
        await gate.wait(runtime)
        if runtime.drain_requested and not holds:
            raise GraphDrained(runtime.drain_reason or "")
        update = await node(state, runtime)
        gate.expect(sum(event["type"] == Lifecycle.type for event in update.get("events", ())))
        return update

    return cast(Node, step)
