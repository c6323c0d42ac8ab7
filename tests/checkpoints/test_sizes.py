"""What a long task and a long session take on the disk, with texts that hardly can be compressed."""

import asyncio
import base64
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

import segue
from segue import Agent
from segue.core.agents import Budget
from tests.fakes import ScriptedChatModel

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
def test_200_calls_with_results_of_1_kb_take_3_2_mb(tmp_path: Path) -> None:
    assert size(tmp_path / "segue.db", messages=1, calls=200) < 3.2 * MB


@pytest.mark.slow
def test_100_turns_of_2_texts_of_1_kb_take_5_5_mb(tmp_path: Path) -> None:
    assert size(tmp_path / "segue.db", messages=100, calls=0) < 5.5 * MB
