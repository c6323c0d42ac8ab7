"""Rows of checkpoints: their ids where processes do not agree about the time, and their sizes."""

import asyncio
import base64
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.base import id as langgraph_ids
from langgraph.graph import StateGraph

import segue
from segue import Agent
from segue.checkpoints.rows import CheckedSerializer, is_plausible
from segue.core.agents import Budget
from tests.fakes import ScriptedChatModel

from .graphs import HELLO, Place, Steps, Talk, chain, config_of, run


def clock(monkeypatch: pytest.MonkeyPatch, ahead: float) -> None:
    """What the clock says in another process."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + int(ahead * 1e9))
    monkeypatch.setattr(langgraph_ids, "_last_v6_timestamp", None)


async def test_a_turn_after_the_clock_was_set_back_is_the_newest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph's ids are times, and the newest checkpoint is the one with the greatest id."""

    async def turn(ahead: float, name: str) -> Any:
        with monkeypatch.context() as patch:
            clock(patch, ahead)
            wired = chain(StateGraph(Talk), **{name: Steps().node(name)}).compile(checkpointer=place.saver)
            await run(wired, HELLO)
            return (await wired.aget_state(config_of())).values["done"]

    assert await turn(600, "first") == ["first"]
    assert await turn(0, "second") == ["first", "second"]
    assert await turn(-86_400, "third") == ["first", "second", "third"]


def test_a_type_of_a_state_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    serializer, encoded = CheckedSerializer(), list[object]()
    serializer.keep([Budget], ["own"])
    encode = serializer.plain_typed
    monkeypatch.setattr(serializer, "plain_typed", lambda value: (encoded.append(value), encode(value))[1])
    for _ in range(2):
        serializer.check([Budget(), {"more": Budget(reply_chars=3_000)}])
    assert len(encoded) == 1


def test_an_id_that_langgraph_cannot_have_made_yet_is_not_plausible() -> None:
    assert is_plausible(str(langgraph_ids.uuid6()))
    for other in ("ffffffff-ffff-6fff-8000-000000000000", "1f1e739c-dea3-4f11-800b-ebfb0d3bf89c", "first"):
        assert not is_plausible(other)


# What a long task and a long session take on the disk, with texts that hardly can be compressed.


MB = 1_000_000


def texts() -> Iterator[str]:
    """Different texts of 1,000 characters."""
    source = random.Random(1)
    while True:
        yield base64.b64encode(source.randbytes(750)).decode()


def size(path: Path, messages: int, calls: int) -> int:
    """Bytes of a database with one session, in which each message is answered after some calls."""
    some = texts()

    def read_page(number: int) -> str:
        """Read one page."""
        return next(some)

    def call(number: int) -> AIMessage:
        made = {"name": "read_page", "args": {"number": number}, "id": f"call_{number}", "type": "tool_call"}
        return AIMessage("", tool_calls=[made])

    replies = [reply for _ in range(messages) for reply in (*map(call, range(calls)), next(some))]
    agent = Agent(
        agent_id="a",
        model=ScriptedChatModel(replies),
        mode="react",
        protocol="native",
        tools=[segue.tool(read_only=True)(read_page)],
        max_iteration=1_000,
        budget=Budget(tool_calls=1_000),
    )

    async def work() -> None:
        async with segue.open(path, agents=[agent]) as app:
            for _ in range(messages):
                assert (await app.ask(next(some), session_id="s", agent="a")).success

    asyncio.run(work())
    return path.stat().st_size


@pytest.mark.slow
def test_200_calls_with_results_of_1_kb_take_2_75_mb(tmp_path: Path) -> None:
    assert size(tmp_path / "segue.db", messages=1, calls=200) < 2.75 * MB


@pytest.mark.slow
def test_100_turns_of_2_texts_of_1_kb_take_4_2_mb(tmp_path: Path) -> None:
    assert size(tmp_path / "segue.db", messages=100, calls=0) < 4.2 * MB
