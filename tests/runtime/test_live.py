"""Thought and answer appear while the endpoint is still writing: it goes on only when the first delta was seen."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent
from tests.fakes import answer, plan_json
from tests.loopback import Gate, LoopbackServer, Text

PLAN = plan_json("go", [{"action": "none", "description": "answer"}])
ENVELOPE = answer("an answer in two halves", thought="a thought in two halves")
HALF = ENVELOPE.index("two halves", ENVELOPE.index("answer in"))
THOUGHT = ENVELOPE.index("in two halves")


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with segue.open(tmp_path / "live.db") as opened:
        yield opened


CASES: dict[str, tuple[str, str, list[Any], str, str, str]] = {
    "json thought": ("json", "react", [], ENVELOPE[:THOUGHT], ENVELOPE[THOUGHT:], "thinking"),
    "json answer": ("json", "react", [], ENVELOPE[:HALF], ENVELOPE[HALF:], "token"),
    "native answer": ("native", "react", [], "an answer ", "in two halves", "token"),
    "direct answer": ("json", "direct", [], "an answer ", "in two halves", "token"),
    "plan's answer": ("json", "plan", [Text(PLAN)], "an answer ", "in two halves", "token"),
    "json, two graphs deep": ("json", "plan_react", [Text(PLAN)], ENVELOPE[:HALF], ENVELOPE[HALF:], "token"),
    "native, two graphs deep": ("native", "plan_react", [Text(PLAN)], "an answer ", "in two halves", "token"),
}


async def test_who_follows_late_gets_the_answer_from_its_beginning(app: App) -> None:
    go = asyncio.Event()
    async with LoopbackServer([Gate("an answer ", "in two halves", go)]) as server:
        app.register(Agent(agent_id="a", model="openai:m", base_url=server.base_url))
        task_id = (await app.start("go", agent="a", mode="direct")).task_id
        async with asyncio.timeout(60):
            async for event in app.follow(task_id):
                if event.type == "token":
                    break
            late, without = [app.follow(task_id, so_far=so_far) for so_far in (True, False)]
            heard: list[str] = []
            async for event in late:
                if event.type == "token":
                    heard.append(event.content)
                    go.set()
            assert "".join(heard) == "an answer in two halves"
            assert not [event async for event in without if event.type == "token"], "it is over, the answer is an event"


@pytest.mark.parametrize("case", CASES)
async def test_the_first_half_is_seen_before_the_second_is_sent(app: App, case: str) -> None:
    protocol, mode, before, first, rest, kind = CASES[case]
    seen = asyncio.Event()
    async with LoopbackServer([*before, Gate(first, rest, seen)]) as server:
        app.register(Agent(agent_id="a", model="openai:m", base_url=server.base_url, protocol=protocol))
        said = ""
        async with asyncio.timeout(60):
            async for event in app.chat("go", agent="a", mode=mode):
                if event.type == kind and "━" not in event.content:
                    said += event.content
                    seen.set()
        server.assert_spent()
    assert seen.is_set()
    assert "in two halves" in said
    assert (await app.tasks.list())[0].status == "done"
