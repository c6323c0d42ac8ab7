"""Agents elsewhere as tools, over A2A: a service on this machine has them."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.core.agents import Agent, RemoteAgent, load_agents
from segue.core.errors import ToolServerUnavailable
from segue.registry import Registry, served_tools
from segue.server import ServerSettings
from segue.tools.adapters.a2a import RemoteAgentError, RemoteAgents
from segue.tools.bound_tool import CallContext, current_call
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.ports import free_port
from tests.server.serving import ALPHA, KEYS, Held, Served
from tests.server.shop import refund, reply


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def served(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("remote") / "segue.db"
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000)
    with Served(path, settings, agents=[held.agent("shop", reply, tools=(refund,), description="Sells fruit.")]) as it:
        yield it


def remote(served: Served, **fields: Any) -> RemoteAgent:
    return RemoteAgent(name="shop", url=f"{served.url}/a2a/shop", headers=ALPHA, **fields)  # type: ignore[arg-type]


def desk(served: Served, **fields: Any) -> Agent:
    """An agent that hands on what it is told, and answers what the shop asks."""

    def hand_on(messages: Any) -> str:
        text = "\n".join(str(message.content) for message in messages)
        for known in ("Settled", "Heard apples."):
            if known in text:
                return answer(f"The shop says: {known}")
        if "refund(amount=5)" in text:
            task_id = re.findall(r'"task_id":\s*"([0-9a-f-]{36})",\s*"answer_with"', text)[-1]
            return call_tool(("shop", {"message": "yes", "task_id": task_id}))
        return call_tool(("shop", {"message": "please refund" if "refund" in text else "apples"}))

    return Agent(agent_id="desk", model=ScriptedChatModel(hand_on), a2a=(remote(served, **fields),), mode="react")


def tasks(served: Served) -> list[Any]:
    with served.client(headers=ALPHA) as http:
        items: list[Any] = http.get("/api/agents/shop/tasks", params={"limit": 500}).json()["items"]
        return items


async def test_an_agent_elsewhere_answers_and_its_card_describes_it(served: Served, tmp_path: Path) -> None:
    agent = desk(served)
    async with segue.open(tmp_path / "a.db", agents=[agent]) as app:
        assert (await app.ask("What do they hear?", agent="desk")).answer == "The shop says: Heard apples."
        spec = app.agents.tools_for(agent)["shop"].spec["function"]
    assert "Sells fruit." in spec["description"] and spec["parameters"]["required"] == ["message"]


async def test_what_the_agent_asks_is_a_result_that_a_further_call_answers(served: Served, tmp_path: Path) -> None:
    before = len(tasks(served))
    async with segue.open(tmp_path / "a.db", agents=[desk(served)]) as app:
        result = await app.ask("Get a refund.", agent="desk")
        calls = (await app.trace(result.task_id))["calls"]
    assert result.answer == "The shop says: Settled" and len(calls) == 2
    assert calls[0]["outcome"]["success"]["question"].startswith("Approve")
    assert len(tasks(served)) == before + 1 and tasks(served)[0]["status"] == "done"


async def test_a_call_that_was_interrupted_finds_its_task_again(served: Served, held: Held) -> None:
    held.begun.clear()
    before = len(tasks(served))
    (tool,) = await RemoteAgents().open([remote(served)])
    current_call.set(CallContext(idempotency_key="k1", tool="shop"))
    first = asyncio.create_task(tool.call({"message": "please hold"}))
    await asyncio.to_thread(held.begun.wait, 60)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    held.go.set()
    current_call.set(CallContext(idempotency_key="k1", tool="shop", attempt=2))
    assert await tool.call({"message": "please hold"}) == "Settled, 好的."
    assert len(tasks(served)) == before + 1
    assert held.effects.count("one") == 1


async def test_a_failure_elsewhere_is_the_calls_error(served: Served) -> None:
    (tool,) = await RemoteAgents().open([remote(served)])
    with pytest.raises(RemoteAgentError, match=r"ended failed: .*the endpoint is down"):
        await tool.call({"message": "please fail"})


async def test_an_agent_that_cannot_be_reached_or_has_no_card_is_named(served: Served, tmp_path: Path) -> None:
    for url, why in ((f"http://127.0.0.1:{free_port()}", "Network communication"), (f"{served.url}/a2a/none", "404")):
        gone = RemoteAgent(name="shop", url=url, headers=ALPHA)  # type: ignore[arg-type]
        agent = Agent(agent_id="desk", a2a=(gone,))
        with pytest.raises(ToolServerUnavailable, match=f"The A2A agent 'shop' cannot be used: .*{why}"):
            await Registry([agent]).prepare(agent)
        assert why in (await served_tools([agent]))["desk"]


def test_the_agents_file_has_a_table_for_each(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text('[[agent]]\nagent_id = "desk"\n[[agent.a2a]]\nname = "shop"\nurl = "https://a.example/a2a/shop"\n')
    (agent,) = load_agents(file)
    assert agent.a2a[0].url == "https://a.example/a2a/shop" and not agent.a2a[0].needs_approval
