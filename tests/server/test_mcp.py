"""The official SDK's client calls agents: in this process, over HTTP and over standard input and output."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.mcp.agent_server import AgentServer
from tests.fakes import ScriptedChatModel

from .serving import ALPHA, BETA, KEYS, Served, ServerSettings
from .shop import refund, reply

MODES = ("2026-07-28", "legacy")


def shop() -> Agent:
    return Agent(agent_id="shop", description="A shop.", model=ScriptedChatModel(reply), tools=(refund,), mode="react")


class Person:
    """Answers what the server asks, and notes it."""

    def __init__(self, action: str = "accept", **content: str) -> None:
        self._result = ElicitResult.model_validate({"action": action, "content": content or None})
        self.asked: list[str] = []

    async def __call__(self, _: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return self._result


@pytest.fixture
async def app() -> AsyncIterator[App]:
    async with segue.open(":memory:", agents=[shop()]) as app:
        yield app


def said(result: Any) -> str:
    return str(result.content[0].text)


async def test_an_agent_is_a_tool_that_says_how_far_it_is(app: App) -> None:
    progress: list[str] = []

    async def note(_: float, __: float | None, message: str | None) -> None:
        progress.append(message or "")

    async with Client(AgentServer(app).server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["shop"].description == "A shop."
        assert tools["shop"].input_schema["required"] == ["message"]
        first = await client.call_tool("shop", {"message": "apples"}, progress_callback=note)
        assert (said(first), first.structured_content["status"]) == ("Heard apples.", "done")
        again = {"message": "pears", "session_id": first.structured_content["session_id"], "mode": "direct"}
        assert "pears" in said(await client.call_tool("shop", again))
        assert client.server_info.version == version("segue")
    assert progress == ["round 1", "writing the answer"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("person", "runs"),
    [
        (Person(verdict="approve"), 1),
        (Person(verdict="reject", reason="too expensive"), 0),
        (Person(verdict="reject", reason="ok"), 0),  # a reason decides nothing
        (Person("decline"), 0),
    ],
)
async def test_a_client_that_can_ask_asks_for_approval(app: App, mode: str, person: Person, runs: int) -> None:
    person.asked.clear()
    async with Client(AgentServer(app).server, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("shop", {"message": "please refund"})
    assert person.asked == ["Approve refund(amount=5)?"]
    assert result.structured_content["status"] == "done"
    trace = await app.trace(result.structured_content["task_id"])
    assert len(trace["calls"]) == runs
    given = [form["data"]["verdicts"][0] for form in trace["events"] if form["type"] == "approval_given"]
    assert [verdict["verdict"] for verdict in given] == ["approve" if runs else "reject"]


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_cannot_is_told_what_to_send(app: App, mode: str) -> None:
    async with Client(AgentServer(app).server, mode=mode) as client:
        waiting = await client.call_tool("shop", {"message": "please refund", "session_id": "s"})
        assert waiting.structured_content["status"] == "waiting"
        assert said(waiting).startswith("Approve refund(amount=5)?") and "session_id 's'" in said(waiting)
        done = await client.call_tool("shop", {"message": "yes", "session_id": "s"})
    assert said(done) == "Settled, 好的."
    assert done.structured_content["task_id"] == waiting.structured_content["task_id"]


async def test_a_question_is_put_to_the_person(app: App) -> None:
    person = Person(answer="blue")
    async with Client(AgentServer(app).server, elicitation_callback=person) as client:
        result = await client.call_tool("shop", {"message": "paint it", "mode": "controller"})
    assert (person.asked, said(result)) == (["Which colour?"], "It is blue.")


async def test_mistakes_are_results_that_say_what_to_do(app: App) -> None:
    async with Client(AgentServer(app).server) as client:
        for name, arguments, sentence in (
            ("none", {"message": "hi"}, "There is no agent 'none'"),
            ("shop", {"message": "hi", "mode": "none"}, "no mode 'none'"),
            ("shop", {}, "message: Field required"),
            ("shop", {"message": "please fail"}, "the endpoint is down"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error and sentence in said(result), said(result)


async def test_a_key_in_the_meta_data_starts_one_task(app: App) -> None:
    async with Client(AgentServer(app).server) as client:
        results = [
            await client.call_tool("shop", {"message": "apples"}, meta={"idempotencyKey": "k"}) for _ in range(2)
        ]
    assert results[0].structured_content == results[1].structured_content
    assert len(await app.tasks()) == 1


async def test_over_http_a_conversation_survives_a_restart_and_tenants_are_apart(database: Path) -> None:
    settings = ServerSettings(keys=KEYS)
    with Served(database, settings, agents=[shop()]) as served:
        async with opened(served.url, ALPHA) as client:
            waiting = await client.call_tool("shop", {"message": "please refund", "session_id": "s"})
            assert waiting.structured_content["status"] == "waiting"
    with Served(database, settings, agents=[shop()]) as served:
        async with opened(served.url, BETA, elicitation_callback=Person(verdict="approve")) as client:
            other = await client.call_tool("shop", {"message": "apples", "session_id": "s"})
            assert said(other) == "Heard apples."
            stolen = await client.session.call_tool(
                "shop", {"message": "x"}, request_state=waiting.structured_content["task_id"]
            )
            assert stolen.is_error and "There is no task" in said(stolen) and "`segue" not in said(stolen)
        async with opened(served.url, ALPHA) as client:
            done = await client.call_tool("shop", {"message": "approve", "session_id": "s"})
            assert (said(done), done.structured_content["session_id"]) == ("Settled, 好的.", "s")
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            assert (await http.post(f"{served.url}/mcp", json={})).status_code == 401


async def test_over_http_an_error_names_nothing_of_the_tenant_or_the_command_line(database: Path) -> None:
    with Served(database, ServerSettings(keys=KEYS), agents=[shop()]) as served:
        async with opened(served.url, {**ALPHA, "Accept-Language": "zh"}) as client:
            first, other = [
                await client.call_tool("shop", {"message": message}, meta={"idempotencyKey": "k"})
                for message in ("apples", "pears")
            ]
    assert not first.is_error
    assert said(other) == "幂等键“k”已用于另一个请求：请为每个请求使用新的键。"


async def test_an_answer_that_comes_again_is_given_once(app: App) -> None:
    once = {"message": "yes", "session_id": "s"}
    async with Client(AgentServer(app).server) as client:
        waiting = await client.call_tool("shop", {"message": "please refund", "session_id": "s"})
        results = [await client.call_tool("shop", once, meta={"idempotencyKey": "k"}) for _ in range(2)]
        other = await client.call_tool("shop", {**once, "message": "no"}, meta={"idempotencyKey": "k"})
    assert [said(result) for result in results] == ["Settled, 好的."] * 2
    assert {result.structured_content["task_id"] for result in results} == {waiting.structured_content["task_id"]}
    assert other.is_error and len(await app.tasks(session_id="s")) == 1


async def test_over_http_only_calls_count_as_chats(database: Path) -> None:
    settings = ServerSettings(keys=KEYS, chats_a_minute=1)
    with Served(database, settings, agents=[shop()]) as served:
        async with opened(served.url, {**ALPHA, "Accept-Language": "zh"}) as client:
            for _ in range(3):
                await client.list_tools()
            assert said(await client.call_tool("shop", {"message": "apples"})) == "Heard apples."
            busy = await client.call_tool("shop", {"message": "pears"})
    assert busy.is_error and said(busy).startswith("请求过多")


async def test_over_http_requests_that_stay_open_count_as_streams(database: Path) -> None:
    settings, listening = ServerSettings(keys=KEYS, streams=1), {**ALPHA, "Accept": "text/event-stream"}
    with Served(database, settings) as served, served.client() as client:
        with client.stream("GET", "/mcp", headers=listening) as first:
            assert first.status_code == 200
            refused = client.get("/mcp", headers=listening)
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "TooManyStreams")
        with client.stream("GET", "/mcp", headers={**BETA, "Accept": "text/event-stream"}) as other:
            assert other.status_code == 200


@asynccontextmanager
async def opened(url: str, headers: dict[str, str], **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), **options) as client,
    ):
        yield client


@pytest.mark.slow
async def test_over_standard_input_and_output(tmp_path: Path) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "segue", "mcp", "--db", str(tmp_path / "segue.db")],
        env={"SEGUE_MODEL": "offline"},
    )
    async with Client(server) as client:
        result = await client.call_tool("travel", {"message": "What is 12 * (3 + 4)?", "mode": "react"})
    assert "84" in said(result)
