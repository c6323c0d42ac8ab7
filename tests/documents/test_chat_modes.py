"""The chat modes and their stream."""

import asyncio
import threading
from typing import Any

import pytest

from segue import Agent
from segue.app import App
from tests.fakes import answer
from tests.loopback import Deltas, LoopbackServer, Text, ToolCalls

from .conftest import Chat


def double(number: int) -> int:
    """Double a number."""
    return number * 2


CALL = ("c", "double", '{"number": 2}')
REASONING = {
    "reasoning_content": [{"reasoning_content": "hm, "}, {"reasoning_content": "so"}, {"content": "hello"}],
    "reasoning": [{"reasoning": "hm, so"}, {"content": "hello"}],
    "both": [{"reasoning": "hm, so", "reasoning_content": "hm, so"}, {"content": "hello"}],
    "parts": [{"content": [{"type": "thinking", "thinking": [{"text": "hm, so"}]}, {"text": "hello"}]}],
    "tags": [{"content": "\n<think>hm, so</think>\n\nhello"}],
    "split tags": [{"content": piece} for piece in ("<th", "ink>hm", ", so</", "thi", "nk>", "\n\nhel", "lo")],
}


@pytest.mark.parametrize("form", REASONING)
@pytest.mark.parametrize("agent", [{"mode": "direct"}, {"mode": "react", "protocol": "native"}], ids=str)
async def test_reasoning_is_streamed_as_thinking_and_never_as_the_answer(chat: Chat, form: str, agent: Any) -> None:
    talk = await chat([Deltas(REASONING[form])], **agent)
    assert talk.result["answer"] == talk.text("token") == "hello"
    assert talk.text("thinking").endswith("\nhm, so\n")


async def test_a_decision_may_follow_a_thought_that_looks_like_one(chat: Chat) -> None:
    talk = await chat([Text(f"<think>{answer('no')}</think>{answer('yes')}")], mode="react")
    assert talk.result["answer"] == talk.text("token") == "yes"
    assert talk.of_type("error") == []


async def test_a_short_text_before_native_calls_is_thinking(chat: Chat) -> None:
    script = [ToolCalls([CALL], content="I double it."), Text("It is 4.")]
    talk = await chat(script, mode="react", protocol="native", tools=(double,))
    assert "\nI double it.\n" in talk.text("thinking")
    assert talk.text("token") == talk.result["answer"] == "It is 4."
    assert talk.of_type("thought") == [{"text": "I double it."}]
    assert talk.of_type("attempt_restarted") == []


async def test_a_long_text_before_native_calls_is_part_of_the_answer(chat: Chat) -> None:
    long = "I double it. " * 20
    script = [ToolCalls([CALL], content=long), Text("It is 4.")]
    talk = await chat(script, mode="react", protocol="native", tools=(double,))
    assert talk.text("token") == talk.result["answer"] == f"{long}\n\nIt is 4."
    assert long not in talk.text("thinking")
    assert talk.of_type("attempt_restarted") == []


async def test_a_text_that_nothing_follows_for_a_while_is_shown(app: App) -> None:
    shown = threading.Event()
    called = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "double", "arguments": '{"number": 2}'}}]}
    script = [Deltas([{"content": "I double it."}, shown, called], "tool_calls"), Text("It is 4.")]
    async with LoopbackServer(script) as server, asyncio.timeout(20):
        app.register(
            Agent(
                agent_id="a", model="openai:x", base_url=server.base_url, api_key="k",
                mode="react", protocol="native", tools=(double,),
            )
        )  # fmt: skip
        tokens = []
        async for event in app.chat("go", agent="a"):
            if event.type == "token":
                tokens.append(event.data["content"])
                shown.set()
    assert "".join(tokens) == "I double it.\n\nIt is 4."


async def test_every_banner_begins_a_line(chat: Chat) -> None:
    script = [ToolCalls([CALL], content="I double it."), Text("It is 4.")]
    talk = await chat(script, mode="react", protocol="native", tools=(double,))
    lines = talk.text("thinking").splitlines()
    assert [place for place, line in enumerate(lines) if "━" in line and set(line) != {"━"}] == []
    assert sum(set(line) == {"━"} for line in lines) == 2
