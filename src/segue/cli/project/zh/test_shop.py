"""智能体的测试，不需要密钥：用 python test_shop.py 或 pytest 运行。"""

import asyncio
from pathlib import Path

import segue

AGENTS = Path(__file__).with_name("agents.toml")


async def ask(message: str) -> segue.Result:
    """询问离线规划器，它按关键词选择工具。"""
    async with segue.open(":memory:", agents=segue.load_agents(AGENTS)) as app:
        return await app.ask(message, agent="support", model="offline")


def test_an_order_is_looked_up() -> None:
    result = asyncio.run(ask("我的订单 17 到哪里了？"))
    assert "订单 17 已发货。" in result.answer


def test_a_refund_waits_for_approval() -> None:
    assert asyncio.run(ask("请给订单 17 退款")).status == "waiting"


if __name__ == "__main__":
    test_an_order_is_looked_up()
    test_a_refund_waits_for_approval()
    print("2 个测试通过")
