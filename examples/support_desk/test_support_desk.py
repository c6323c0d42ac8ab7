"""Tests of the support desk, without a key: pytest test_support_desk.py"""

import asyncio
from pathlib import Path

import pytest
from desk_tools import shop

import segue

AGENTS = Path(__file__).with_name("agents.toml")


@pytest.fixture(autouse=True)
def _own_shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", str(tmp_path / "shop.db"))


def ask(message: str, verdict: str = "") -> segue.Result:
    """Ask the offline planner, and answer the approval if there is a verdict."""

    async def asked() -> segue.Result:
        async with segue.open(":memory:", agents=segue.load_agents(AGENTS)) as app:
            result = await app.ask(message, agent="desk", model="offline")
            return await app.answer(result.task_id, verdict) if verdict else result

    return asyncio.run(asked())


def refunds() -> list[int]:
    with shop() as db:
        return [row["order_id"] for row in db.execute("SELECT order_id FROM refunds")]


def test_an_order_is_looked_up() -> None:
    assert "Lumen lamp" in ask("Where is my order 17?").answer


def test_a_refund_waits_and_is_made_once_it_is_approved() -> None:
    assert (ask("Please refund order 17").status, refunds()) == ("waiting", [])
    assert (ask("Please refund order 17", "approve").status, refunds()) == ("done", [17])


def test_a_refund_that_is_rejected_is_not_made() -> None:
    assert (ask("Please refund order 17", "reject").status, refunds()) == ("done", [])


def test_an_order_that_is_on_its_way_is_not_refunded() -> None:
    assert "only a delivered order" in ask("Please refund order 18", "approve").answer
    assert refunds() == []
