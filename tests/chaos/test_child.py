from pathlib import Path

import pytest

from segue import CallContext, tool
from segue.testing.chaos import child
from segue.testing.chaos.child import FaultyExecutor, FaultyTool, Orders
from segue.testing.chaos.traps import Files, Journal, Network
from segue.tools.adapters.functions import bind_function
from segue.tools.bound_tool import current_call

CALLED: list[int] = []


@tool(idempotent=True)
def pay(order: int) -> str:
    """Pay an order."""
    CALLED.append(order)
    return "paid"


async def test_a_call_that_takes_long_is_repeated_once_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "REPEAT_SECONDS", 0.0)
    CALLED.clear()
    orders = Orders(str(tmp_path), "", "", {}, label="pay#1", fault="duplicate")
    executor = FaultyExecutor(orders, Journal(tmp_path / "journal"), Network(), Files())
    token = current_call.set(CallContext(idempotency_key="key", tool="pay"))
    try:
        await FaultyTool(bind_function(pay), executor, "pay#1").call({"order": 7})
    finally:
        current_call.reset(token)
    assert CALLED == [7, 7]
