"""What bounds a model's reply, and a pause while an endpoint is asked."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent, Budget
from tests.fakes import answer
from tests.loopback import Endless, LoopbackServer, Text
from tests.loopback_wire import Dropped, Wire
from tests.polling import SECONDS, until

from .test_control import Drip, status, types


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with segue.open(tmp_path / "segue.db") as opened:
        yield opened


class Quiet:
    """An endpoint that says nothing and closes the connection on `go`; `asked` is set when it is called."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def play(self, wire: Wire) -> None:
        self.asked.set()
        wire.wait(self.go.is_set, SECONDS)
        raise Dropped


def agent_at(server: LoopbackServer, **fields: Any) -> Agent:
    return Agent(agent_id="a", model="openai:x", base_url=server.base_url, api_key="k", **fields)


@pytest.mark.parametrize(("budget", "most"), [(Budget(reply_chars=100), 300), (Budget(seconds=1), 2000)])
async def test_a_reply_without_an_end_is_left_and_said_to_be_cut(app: App, budget: Budget, most: int) -> None:
    drip = Drip()
    async with LoopbackServer([drip]) as server:
        app.register(agent_at(server, mode="direct", budget=budget))
        result = await app.ask("tell me a long story", agent="a")
        await until(drip.left.is_set)
    assert result["success"] and result["answer"].startswith("word ")
    assert len(result["answer"]) < most and "word" not in result["answer"][-10:]


ARGUMENTS = [{"index": 0, "id": "c", "function": {"name": "add", "arguments": "x" * 50}}]
ENDLESS = {
    "arguments": Endless.delta(tool_calls=ARGUMENTS),
    "reasoning": Endless.delta(reasoning_content="hm " * 20),
    "refusal": Endless.delta(refusal="no " * 20),
    "empty deltas": Endless.delta(content=""),
    "no choices": Endless({"choices": []}),
}


async def ask_endless(app: App, name: str, budget: Budget) -> dict[str, Any]:
    """What comes of a task whose first reply has no end and whose second is an answer."""
    endless = replace(ENDLESS[name], left=threading.Event())
    async with LoopbackServer([endless, Text(answer("short"))]) as server, asyncio.timeout(60):
        app.register(agent_at(server, mode="react", budget=budget))
        result = await app.ask("go", agent="a")
        await until(endless.left.is_set)
    return result


@pytest.mark.parametrize("name", ["arguments", "reasoning", "refusal"])
async def test_all_characters_of_a_reply_are_counted(app: App, name: str) -> None:
    result = await ask_endless(app, name, Budget(reply_chars=400, reasoning_chars=400))
    assert result["answer"] == "short"


@pytest.mark.parametrize("name", ENDLESS)
async def test_the_time_limit_holds_for_replies_without_text(app: App, name: str) -> None:
    result = await ask_endless(app, name, Budget(seconds=1.5, reply_chars=10**8, reasoning_chars=10**8))
    assert result["error"] == "the time limit of 1.5 seconds was reached"


async def test_a_decision_without_an_end_is_asked_for_again(app: App) -> None:
    async with LoopbackServer([Drip(), Text(answer("short"))]) as server:
        app.register(agent_at(server, mode="react", budget=Budget(reply_chars=400)))
        result = await app.ask("go", agent="a")
        errors = [e["data"]["message"] for e in await app.events(result["task_id"]) if e["type"] == "error"]
    assert result["answer"] == "short"
    assert errors == ["The reply was truncated at its length limit: write a shorter one."]


@pytest.mark.parametrize("mode", ["direct", "react", "plan"])
async def test_where_a_pause_is_wanted_no_further_attempt_is_begun(app: App, mode: str) -> None:
    quiet = Quiet()
    async with LoopbackServer([quiet, *[Text(answer("late"))] * 4]) as server:
        app.register(agent_at(server, mode=mode))
        row = await app.start("go", session_id="s", agent="a")
        await until(quiet.asked.is_set)
        await app.pause(row["task_id"])
        quiet.go.set()
        assert types([event async for event in app.follow(row["task_id"])])[-1] == "paused"
        assert len(server.requests) == 1
        assert await status(app, row["task_id"]) == "paused"
        result = await app.resume(row["task_id"])
    assert result["status"] == "done" and "late" in result["answer"]
