"""What the tests stand on: the scripted model, cases, guards, the loopback server."""

import asyncio
import inspect
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.cases import cases
from tests.conftest import RECORDED
from tests.fakes import ScriptedChatModel, ScriptLeftOver, ScriptRanDry
from tests.loopback import Gate, Item, LoopbackServer, Text


async def test_replies_come_in_order_and_calls_are_recorded() -> None:
    with ScriptedChatModel(["one", AIMessage("two"), lambda messages: f"{messages[-1].content}!"]) as model:
        said = [(await model.ainvoke(text)).content for text in ("a", "b", "c")]
    assert said == ["one", "two", "c!"]
    assert [call[-1] for call in model.calls] == [HumanMessage("a"), HumanMessage("b"), HumanMessage("c")]


async def test_one_call_too_many_is_no_model_fault_and_cannot_be_hidden() -> None:
    model = ScriptedChatModel(["only this"])
    await model.ainvoke("first")
    with pytest.raises(ScriptRanDry, match="call 2 finds a script of 1 replies; it ends with: 'second'"):
        await model.ainvoke("second")
    with pytest.raises(ScriptRanDry, match="call 2"):
        model.assert_spent()
    assert issubclass(ScriptRanDry, AssertionError)


def test_what_is_left_over_is_named() -> None:
    with (
        pytest.raises(ScriptLeftOver, match="1 of 1 replies were not asked for, next: 'unsaid'"),
        ScriptedChatModel(["unsaid"]),
    ):
        pass


def test_leaving_with_an_error_does_not_hide_it() -> None:
    with pytest.raises(KeyError), ScriptedChatModel(["unsaid"]):
        raise KeyError


# Cases of one test: all of them run, and those that fail are named.


def test_every_case_runs_and_those_that_fail_are_named() -> None:
    ran: list[tuple[int, str]] = []

    @cases("number, word", [(1, "a"), (2, "b"), (3, "c")])
    def check(number: int, word: str, fixture: set[int]) -> None:
        ran.append((number, word))
        assert number not in fixture

    assert [*inspect.signature(check).parameters] == ["fixture"]
    check(fixture=set())
    assert ran == [(1, "a"), (2, "b"), (3, "c")]
    with pytest.raises(AssertionError) as one:
        check(fixture={2})
    assert one.value.__notes__ == ["in the case number=2, word='b'"]
    with pytest.raises(BaseExceptionGroup) as many:
        check(fixture={1, 3})
    assert [error.__notes__ for error in many.value.exceptions] == [
        ["in the case number=1, word='a'"],
        ["in the case number=3, word='c'"],
    ]


def test_what_is_awaited_or_raises_nothing_fails_as_well() -> None:
    @cases("number", [1, 2])
    async def check(number: int) -> None:
        await asyncio.sleep(0)
        with pytest.raises(ZeroDivisionError):
            assert 1 / (number - 1)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as failed:
        asyncio.run(check())
    assert failed.value.__notes__ == ["in the case number=2"]


# The guards that every other test relies on.


@pytest.mark.parametrize(
    "reach",
    [
        lambda: socket.create_connection(("192.0.2.1", 80), timeout=1),
        lambda: socket.getaddrinfo("example.invalid", 443),
        lambda: socket.gethostbyname("example.invalid"),
    ],
    ids=["connect", "look up", "look up the old way"],
)
def test_another_machine_is_out_of_reach(reach: Callable[[], object], network_attempts: list[str]) -> None:
    with pytest.raises(RuntimeError, match="loopback addresses only"):
        reach()
    assert len(network_attempts) == 1
    network_attempts.clear()


async def test_loopback_is_within_reach() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(greet, "localhost", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert await reader.read() == b"hello"
        writer.close()
        await writer.wait_closed()


def test_no_setting_of_the_machine_reaches_a_test() -> None:
    prefixes = ("OPENAI_", "SEGUE_", "LANGSMITH_", "LANGCHAIN_")
    assert {name for name in os.environ if name.startswith(prefixes)} - {RECORDED} == {"LANGSMITH_TRACING"}
    assert os.environ["LANGSMITH_TRACING"] == "false"


def test_recorded_material_is_found_skipped_or_missed(
    recorded: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "there.jsonl").touch()
    monkeypatch.setenv(RECORDED, str(tmp_path))
    assert recorded("there.jsonl") == tmp_path / "there.jsonl"
    with pytest.raises(pytest.fail.Exception, match=r"there is no absent\.jsonl"):
        recorded("absent.jsonl")
    monkeypatch.delenv(RECORDED)
    with pytest.raises(pytest.skip.Exception, match="is not set"):
        recorded("there.jsonl")


# The loopback server through a real client: what it records, and how a script that does not fit fails a test.


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


async def test_what_a_server_left_over_is_named() -> None:
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
