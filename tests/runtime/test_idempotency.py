"""Idempotency keys: the same request twice starts one task."""

import asyncio
from pathlib import Path

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import KeyUsed
from segue.core.records import Task
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import until


class Shop:
    """An agent whose orders can be counted, and held up."""

    def __init__(self) -> None:
        self.ordered: list[str] = []
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()

    async def order(self, item: str) -> str:
        """Order an item."""
        self.entered.set()
        await self.gate.wait()
        self.ordered.append(item)
        return f"{item} is ordered"

    def agent(self) -> Agent:
        replies = [call_tool(("order", {"item": "tea"})), answer("Ordered."), answer("Anything else?")]
        return Agent(agent_id="shop", tools=[self.order], model=ScriptedChatModel(replies), mode="react")


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def test_a_request_that_comes_again_gives_the_task_that_it_began(shop: Shop, tmp_path: Path) -> None:
    async with segue.open(tmp_path / "segue.db", agents=[shop.agent()]) as app:
        first = asyncio.create_task(app.ask("order tea", session_id="s", agent="shop", idempotency_key="k"))
        await shop.entered.wait()
        again = asyncio.create_task(app.ask("order tea", session_id="s", agent="shop", idempotency_key="k"))
        await asyncio.sleep(0)
        shop.gate.set()
        results = await asyncio.gather(first, again)
    assert results[0] == results[1]
    async with segue.open(tmp_path / "segue.db", agents=[shop.agent()]) as app:
        assert await app.ask("order tea", agent="shop", idempotency_key="k") == results[0]
        assert len(await app.tasks.list()) == 1
    assert shop.ordered == ["tea"]


async def test_requests_that_come_at_once_in_sessions_of_their_own_start_one_task(shop: Shop) -> None:
    shop.gate.set()
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        results = await asyncio.gather(*(app.ask("order tea", agent="shop", idempotency_key="k") for _ in range(5)))
        assert len(await app.tasks.list()) == 1
    assert {result.task_id for result in results} == {results[0].task_id}
    assert shop.ordered == ["tea"]


async def test_a_message_that_steers_is_taken_once(shop: Shop) -> None:
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        task = await app.start("order tea", session_id="s", agent="shop")
        await shop.entered.wait()
        steering = asyncio.create_task(
            app.start("green", session_id="s", steer=True, agent="shop", idempotency_key="k")
        )
        await until(lambda: _has_note(app, task.task_id))
        shop.gate.set()
        steered = await steering
        again = await app.start("green", session_id="s", steer=True, agent="shop", idempotency_key="k")
        assert steered.task_id == again.task_id == task.task_id
        assert (await _ended(app, task.task_id)).notes == ["green"]


async def test_a_message_that_steers_twice_at_once_is_taken_once(shop: Shop) -> None:
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        task = await app.start("order tea", session_id="s", agent="shop")
        await shop.entered.wait()
        steering = [
            asyncio.create_task(app.start("green", session_id="s", steer=True, agent="shop", idempotency_key="k"))
            for _ in range(2)
        ]
        await until(lambda: _has_note(app, task.task_id))
        shop.gate.set()
        assert {steered.task_id for steered in await asyncio.gather(*steering)} == {task.task_id}
        ended = await _ended(app, task.task_id)
        assert (ended.status, ended.notes) == ("done", ["green"])


async def test_a_key_that_began_another_message_is_refused(shop: Shop) -> None:
    shop.gate.set()
    async with segue.open(":memory:", agents=[shop.agent()]) as app:
        await app.ask("order tea", session_id="s", agent="shop", idempotency_key="k")
        with pytest.raises(KeyUsed, match="'k' was used for another request"):
            await app.ask("order coffee", session_id="s", agent="shop", idempotency_key="k")
        await app.sessions.delete("s")
        assert (await app.ask("hello", agent="shop", idempotency_key="k")).answer == "Anything else?"


async def _ended(app: App, task_id: str) -> Task:
    async for _ in app.follow(task_id):
        pass
    return await app.task(task_id)


async def _has_note(app: App, task_id: str) -> bool:
    """Whether the message that steers is stored."""
    return (await app.task(task_id)).notes == ["green"]
