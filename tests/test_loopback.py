"""The loopback server through a real client: what it records, and how a script that does not fit fails a test."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.fakes import ScriptLeftOver, ScriptRanDry
from tests.loopback import Gate, Item, LoopbackServer, Text


def client(server: LoopbackServer) -> ChatOpenAI:
    return ChatOpenAI(model="test-model", base_url=server.base_url, api_key=SecretStr("test-key"), max_retries=0)


async def test_what_was_sent_is_recorded() -> None:
    async with LoopbackServer([Text("yes")]) as server:
        assert (await client(server).ainvoke("hi")).text == "yes"
    (request,) = server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/chat/completions", "Bearer test-key")
    assert request.body["messages"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize("make", [asyncio.Event, threading.Event])
async def test_a_gate_shows_that_the_first_half_came_before_the_second(make: Callable[[], Any]) -> None:
    gate = make()
    said = ""
    async with LoopbackServer([Gate("first half, ", "second half", gate)]) as server:
        async for chunk in client(server).astream("hi"):
            said += chunk.text
            if said == "first half, ":
                await asyncio.sleep(0.05)
                gate.set()
            assert gate.is_set() or len(said) <= len("first half, ")
    assert said == "first half, second half"


async def test_a_script_that_runs_dry_says_so_twice() -> None:
    async with LoopbackServer([Text("only this")]) as server:
        await client(server).ainvoke("hi")
        with pytest.raises(openai.InternalServerError, match="script ran dry: request 2 finds a script of 1 items"):
            await client(server).ainvoke("hi")
        with pytest.raises(ScriptRanDry, match="request 2"):
            server.assert_spent()


async def test_what_is_left_over_is_named() -> None:
    async with LoopbackServer([Text("never asked for")]) as server:
        with pytest.raises(ScriptLeftOver, match="never asked for"):
            server.assert_spent()


async def test_an_assertion_in_a_scripts_function_reaches_the_test() -> None:
    def refuse(body: dict[str, Any]) -> Item:
        raise AssertionError("not this prompt")

    async with LoopbackServer([refuse]) as server:
        with pytest.raises(openai.APIConnectionError):
            await client(server).ainvoke("hi")
        with pytest.raises(AssertionError, match="not this prompt"):
            server.assert_spent()
