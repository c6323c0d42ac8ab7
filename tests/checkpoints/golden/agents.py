"""The agents of the golden databases, and what their tools did."""

from collections.abc import Awaitable, Callable
from typing import Any

import segue
from segue import Agent
from tests.fakes import ScriptedChatModel

Hook = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """The hook of tools that no task is stopped in."""


class Tools:
    """The tools of the agents, and their effects; `hook` runs in the middle of `hold` and of `deposit`."""

    def __init__(self, hook: Hook = nothing) -> None:
        self.effects: list[str] = []
        self.hook = hook

    def agent(self, *replies: Any, protocol: str = "json") -> Agent:
        def double(number: int) -> dict[str, int]:
            """Double a number."""
            self.effects.append("double")
            return {"doubled": number * 2}

        @segue.tool(needs_approval=True)
        def refund(order: int) -> str:
            """Refund an order."""
            self.effects.append(f"refund {order}")
            return f"refunded {order}"

        async def deposit(amount: int) -> str:
            """Deposit an amount."""
            await self.hook()
            self.effects.append("deposit")
            return f"deposited {amount}"

        async def hold(number: int) -> dict[str, int]:
            """Hold a number."""
            await self.hook()
            self.effects.append("hold")
            return {"held": number}

        return Agent(
            agent_id="golden",
            model=ScriptedChatModel(list(replies)),
            mode="react",
            tools=[double, refund, deposit, hold],
            prompt="You work with numbers.",
            protocol=protocol,  # type: ignore[arg-type]
        )
