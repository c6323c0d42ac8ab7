"""Segue's tasks as tasks of the MCP extension: handles, polls, questions by keys, cancellation and refusals."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph.types import interrupt
from mcp import Client, MCPError
from mcp.types import EmptyResult

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.mcp import AgentServer
from segue.tools.adapters.mcp_tasks import (
    CancelTask,
    CreatedTask,
    GetTask,
    TaskParams,
    Tasks,
    TaskState,
    UpdateParams,
    UpdateTask,
)
from segue.tools.registry import tool
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import until

from .serving import ALPHA, BETA, KEYS, Served, ServerSettings
from .shop import refund
from .test_mcp import Person, opened

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
GATES: dict[str, bool] = {}


@tool(read_only=True)
async def work() -> str:
    """Work for a while."""
    await until(lambda: GATES.get("open"))
    return "worked"


async def ask_name() -> str:
    """Ask for a name."""
    return f"named {interrupt({'kind': 'question', 'question': 'Who?', 'form': NAME})['answer']}"


def reply(messages: Any) -> str:
    said = " ".join(str(message.content) for message in messages)
    if "worked" not in said:
        return call_tool(("work", {}))
    if "break now" in said:
        raise ZeroDivisionError("broken")
    if "two refunds" in said and "refunded" not in said:
        return call_tool(("refund", {"amount": 5}), ("refund", {"amount": 6}))
    if "name me" in said and "named" not in said:
        return call_tool(("ask_name", {}))
    found = next((text for text in ("named", "refunded 5", "refunded 6") if text in said), "worked")
    return answer(f"Done: {found}, {'Ann' if 'Ann' in said else 'nobody'}.")


def clerk(**fields: Any) -> Agent:
    about = {"agent_id": "clerk", "model": ScriptedChatModel(reply), "mode": "react", "tools": (work, refund, ask_name)}
    return Agent(**{**about, **fields})


@pytest.fixture
async def app(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[App]:
    monkeypatch.setattr("segue.mcp._HANDLE_SECONDS", 0)
    GATES.clear()
    async with segue.open(":memory:", agents=[clerk(), clerk(agent_id="must", mcp_tasks="required")]) as app:
        yield app


def connect(app: App, **options: Any) -> Client:
    return Client(AgentServer(app).server, extensions=[Tasks()], **{"elicitation_callback": Person(), **options})


async def begin(client: Client, message: str, agent: str = "clerk") -> str:
    handle = await client.session.call_tool(agent, {"message": message}, allow_claimed=True)
    assert isinstance(handle, CreatedTask), handle
    return handle.task_id


async def get(client: Client, task_id: str) -> TaskState:
    return await client.session.send_request(GetTask(params=TaskParams(task_id=task_id)), TaskState)


async def reach(client: Client, task_id: str, status: str) -> TaskState:
    async def reached() -> bool:
        return (await get(client, task_id)).status == status

    await until(reached)
    return await get(client, task_id)


async def update(client: Client, task_id: str, **responses: Any) -> None:
    params = UpdateParams(task_id=task_id, input_responses=responses)
    await client.session.send_request(UpdateTask(params=params), EmptyResult)


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def test_a_task_that_takes_longer_is_a_handle_until_it_has_its_result(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(app) as client:
        task_id = await begin(client, "go")
        assert (await get(client, task_id)).status == "working"
        GATES["open"] = True
        done = await reach(client, task_id, "completed")
        assert done.result and done.result.structured_content["task_id"] == task_id
        monkeypatch.setattr("segue.mcp._HANDLE_SECONDS", 60.0)
        plain = await client.session.call_tool("clerk", {"message": "go"}, allow_claimed=True)
        assert plain.structured_content["status"] == "done", "a short one has its result at once"
        assert isinstance(await client.session.call_tool("must", {"message": "go"}, allow_claimed=True), CreatedTask)


async def test_calls_are_approved_one_by_one_and_stale_keys_are_ignored(app: App) -> None:
    async with connect(app) as client:
        task_id = await begin(client, "two refunds")
        GATES["open"] = True
        first, second = (await reach(client, task_id, "input_required")).input_requests or {}
        await update(client, task_id, **{first: accept(verdict="approve"), "none": {"ignored": True}})
        assert [*((await get(client, task_id)).input_requests or {})] == [second]
        await update(client, task_id, **{first: accept(verdict="reject")})
        await update(client, task_id, **{second: accept(verdict="reject", reason="too much")})
        await reach(client, task_id, "completed")
        assert [call.arguments["amount"] for call in (await app.trace(task_id)).calls if call.name == "refund"] == [5]
        with pytest.raises(MCPError, match="Input should be"):
            other = await begin(client, "two refunds")
            key = next(iter((await reach(client, other, "input_required")).input_requests or {}))
            await update(client, other, **{key: 5})


async def test_a_question_has_the_form_that_it_names(app: App) -> None:
    async with connect(app) as client:
        task_id = await begin(client, "name me")
        GATES["open"] = True
        ((key, asked),) = ((await reach(client, task_id, "input_required")).input_requests or {}).items()
        assert asked.params.requested_schema == NAME  # type: ignore[union-attr]
        await update(client, task_id, **{key: accept(name="Ann")})
        done = await reach(client, task_id, "completed")
        assert done.result and done.result.structured_content["answer"] == "Done: named, Ann."


async def test_one_that_cannot_ask_gets_the_question_as_the_result(app: App) -> None:
    async with connect(app, elicitation_callback=None) as client:
        task_id = await begin(client, "name me")
        GATES["open"] = True
        asked = await reach(client, task_id, "completed")
        assert asked.result and asked.result.structured_content["status"] == "waiting"
        named = asked.result.structured_content
        again = {"message": '{"name": "Ann"}', **{name: named[name] for name in ("session_id", "interrupt_id")}}
        await client.session.call_tool("clerk", again, allow_claimed=True)

        async def ended() -> bool:
            state = await get(client, task_id)
            return bool(state.result and state.result.structured_content["status"] == "done")

        await until(ended)


async def test_a_task_is_cancelled_and_an_internal_error_is_a_failure(app: App) -> None:
    async with connect(app) as client:
        task_id = await begin(client, "go")
        for _ in range(2):
            await client.session.send_request(CancelTask(params=TaskParams(task_id=task_id)), EmptyResult)
        assert (await reach(client, task_id, "cancelled")).result is None
        broken = await begin(client, "break now")
        GATES["open"] = True
        failed = await reach(client, broken, "failed")
        assert failed.error and (failed.error.code, failed.error.message) == (-32603, "ZeroDivisionError: broken")
    async with Client(AgentServer(app).server) as client:
        with pytest.raises(MCPError, match="ZeroDivisionError: broken"):
            await client.call_tool("clerk", {"message": "break now"})


async def test_without_the_extension_a_call_waits_and_tasks_are_refused(app: App) -> None:
    GATES["open"] = True
    async with Client(AgentServer(app).server) as client:
        done = await client.call_tool("clerk", {"message": "go"})
        assert done.structured_content["status"] == "done"
        for asked in (lambda: get(client, "x"), lambda: client.call_tool("must", {"message": "go"})):
            with pytest.raises(MCPError) as refused:
                await asked()
            assert refused.value.code == -32021
            assert "io.modelcontextprotocol/tasks" in refused.value.data["requiredCapabilities"]["extensions"]
    async with Client(AgentServer(app).server, mode="legacy") as client:
        with pytest.raises(MCPError, match="Method not found"):
            await get(client, "x")


async def test_agents_whose_tools_only_read_say_so(app: App) -> None:
    app.register(clerk(agent_id="reader", tools=(work,)))
    async with Client(AgentServer(app).server) as client:
        tools = {each.name: each.annotations for each in (await client.list_tools()).tools}
    assert tools["reader"] and tools["reader"].read_only_hint and tools["clerk"] is None


async def test_over_http_a_task_is_its_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("segue.mcp._HANDLE_SECONDS", 0)
    GATES.clear()
    with Served(":memory:", ServerSettings(keys=KEYS), agents=[clerk()]) as served:
        async with opened(served.url, ALPHA, extensions=[Tasks()]) as client:
            task_id = await begin(client, "go")
            GATES["open"] = True
            await reach(client, task_id, "completed")
        async with opened(served.url, BETA, extensions=[Tasks()]) as client:
            with pytest.raises(MCPError, match="There is no task") as refused:
                await get(client, task_id)
            assert refused.value.code == -32602
