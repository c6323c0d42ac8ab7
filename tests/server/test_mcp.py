"""The official SDK's client calls agents: in this process, over HTTP and over standard input and output."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import (
    INVALID_PARAMS,
    CancelledNotification,
    CancelledNotificationParams,
    ElicitResult,
    Implementation,
    ResourceTemplateReference,
)

import segue
from segue.app import App
from segue.core.agents import Agent, Budget
from segue.mcp import AgentServer
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import wait_until

from .serving import ALPHA, BETA, KEYS, Served, ServerSettings
from .shop import refund, reply

LEGACY = "2025-11-25"
MODES = ("2026-07-28", "legacy")


def shop(**given: Any) -> Agent:
    about = {"description": "A shop.", "model": ScriptedChatModel(reply), "tools": (refund,), "mode": "react"}
    return Agent(agent_id="shop", **{**about, **given})


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


async def test_an_idempotency_key_is_short(app: App) -> None:
    async with Client(AgentServer(app).server) as client:
        for key in ("x" * 256, "x\0y", ["x"]):
            with pytest.raises(MCPError, match="at most 255 characters"):
                await client.call_tool("shop", {"message": "apples"}, meta={"idempotencyKey": key})


@pytest.mark.parametrize(
    ("mode", "person", "runs"),
    [
        *((mode, Person(verdict="approve"), 1) for mode in MODES),
        (MODES[0], Person(verdict="reject", reason="ok"), 0),  # a reason decides nothing
        (MODES[1], Person(verdict="reject", reason="too expensive"), 0),
        (MODES[0], Person("decline"), 0),
    ],
)
async def test_a_client_that_can_ask_asks_for_approval(app: App, mode: str, person: Person, runs: int) -> None:
    person.asked.clear()
    async with Client(AgentServer(app).server, mode=mode, elicitation_callback=person) as client:
        result = await client.call_tool("shop", {"message": "please refund"})
    assert person.asked == ["Approve refund(amount=5)?"]
    assert result.structured_content["status"] == "done"
    trace = await app.trace(result.structured_content["task_id"])
    assert len(trace.calls) == runs
    given = [form.data["verdicts"][0] for form in trace.events if form.type == "approval_given"]
    assert [verdict["verdict"] for verdict in given] == ["approve" if runs else "reject"]


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_cannot_is_told_what_to_send(app: App, mode: str) -> None:
    async with Client(AgentServer(app).server, mode=mode) as client:
        waiting = await client.call_tool("shop", {"message": "please refund", "session_id": "s"})
        assert waiting.structured_content["status"] == "waiting"
        assert said(waiting).startswith("Approve refund(amount=5)?") and "session_id 's'" in said(waiting)
        named = waiting.structured_content["interrupt_id"]
        assert f"interrupt_id '{named}'" in said(waiting)
        again = await client.call_tool("shop", {"message": "yes", "session_id": "s"})
        assert said(again) == said(waiting), "whoever names the session only may not have seen the question"
        done = await client.call_tool("shop", {"message": "yes", "session_id": "s", "interrupt_id": named})
    assert said(done) == "Settled, 好的."
    assert done.structured_content["task_id"] == waiting.structured_content["task_id"]


async def test_an_answer_approves_only_what_its_client_was_shown(app: App) -> None:
    async def say(message: str, shown: Any = None) -> Any:
        named = {"interrupt_id": shown.structured_content["interrupt_id"]} if shown else {}
        return await client.call_tool("shop", {"message": message, "session_id": "s", **named})

    async def amounts() -> list[int]:
        return [call.arguments["amount"] for call in (await app.trace(task_id)).calls]

    async with Client(AgentServer(app).server) as client:
        asked = await say("refund twice")
        task_id = asked.structured_content["task_id"]
        await app.answer(task_id, "approve")  # a colleague
        late = await say("yes", asked)
        assert said(late).startswith("Approve refund(amount=500)?") and await amounts() == [5]
        done = await say("yes", late)
    assert said(done) == "Settled, 好的." and await amounts() == [5, 500]
    assert done.structured_content["interrupt_id"] is None


async def test_a_client_that_approves_each_call_is_asked_once_for_each(app: App) -> None:
    answers: list[Any] = []
    async with Client(AgentServer(app).server) as client:
        for message in ("refund twice", "yes", "yes"):
            named = {"interrupt_id": answers[-1].structured_content["interrupt_id"]} if answers else {}
            answers.append(await client.call_tool("shop", {"message": message, "session_id": "s", **named}))
    assert [said(each).split("?")[0] for each in answers] == [
        "Approve refund(amount=5)", "Approve refund(amount=500)", "Settled, 好的.",
    ]  # fmt: skip


async def test_a_question_is_put_to_the_person(app: App) -> None:
    person = Person(answer="blue")
    async with Client(AgentServer(app).server, elicitation_callback=person) as client:
        result = await client.call_tool("shop", {"message": "paint it", "mode": "controller"})
    assert (person.asked, said(result)) == (["Which colour?"], "It is blue.")


async def test_mistakes_are_results_that_say_what_to_do(app: App) -> None:
    async with Client(AgentServer(app).server) as client:
        for name, arguments, sentence in (
            ("shop", {"message": "hi", "mode": "none"}, "no mode 'none'"),
            ("shop", {}, "message: Field required"),
            ("shop", {"message": "please fail"}, "the endpoint is down"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error and sentence in said(result), said(result)
        with pytest.raises(MCPError, match="There is no agent 'none'") as refused:
            await client.call_tool("none", {"message": "hi"})
        assert refused.value.code == INVALID_PARAMS


async def test_a_key_in_the_meta_data_starts_one_task(app: App) -> None:
    async with Client(AgentServer(app).server) as client:
        results = [
            await client.call_tool("shop", {"message": "apples"}, meta={"idempotencyKey": "k"}) for _ in range(2)
        ]
    assert results[0].structured_content == results[1].structured_content
    assert len(await app.tasks.list()) == 1


async def test_over_http_a_conversation_survives_a_restart_and_tenants_are_apart(database: Path) -> None:
    settings = ServerSettings(keys=KEYS)
    with Served(database, settings, agents=[shop()]) as served:
        async with opened(served.url, ALPHA) as client:
            waiting = await client.call_tool("shop", {"message": "please refund", "session_id": "s"})
            assert waiting.structured_content["status"] == "waiting"
            named = waiting.structured_content["interrupt_id"]
    with Served(database, settings, agents=[shop()]) as served:
        async with opened(served.url, BETA, elicitation_callback=Person(verdict="approve")) as client:
            other = await client.call_tool("shop", {"message": "apples", "session_id": "s"})
            assert said(other) == "Heard apples."
            with pytest.raises(MCPError, match="No question has this requestState") as stolen:
                state = f"{waiting.structured_content['task_id']}:{named}"
                await client.session.call_tool("shop", {"message": "x"}, request_state=state)
            assert stolen.value.code == INVALID_PARAMS
        async with opened(served.url, ALPHA) as client:
            done = await client.call_tool("shop", {"message": "approve", "session_id": "s", "interrupt_id": named})
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


async def test_a_key_in_the_meta_data_names_no_request_of_another_protocol(database: Path) -> None:
    asked = json.dumps(["", ["", "default", "shop", ""], [["user", "pears"]]])
    named = f"completion:{sha256(asked.encode()).hexdigest()}#0"
    body = {"model": "shop", "messages": [{"role": "user", "content": "pears"}]}
    with Served(database, agents=[shop()]) as served:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            (await http.post(f"{served.url}/v1/chat/completions", json=body)).raise_for_status()
        async with opened(served.url, {}) as client:
            result = await client.call_tool("shop", {"message": "apples"}, meta={"idempotencyKey": named})
    assert said(result) == "Heard apples."


async def test_an_answer_that_comes_again_is_given_once(app: App) -> None:
    async with Client(AgentServer(app).server) as client:
        waiting = await client.call_tool("shop", {"message": "please refund", "session_id": "s"})
        once = {"message": "yes", "session_id": "s", "interrupt_id": waiting.structured_content["interrupt_id"]}
        results = [await client.call_tool("shop", once, meta={"idempotencyKey": "k"}) for _ in range(2)]
        other = await client.call_tool("shop", {**once, "message": "no"}, meta={"idempotencyKey": "k"})
    assert [said(result) for result in results] == ["Settled, 好的."] * 2
    assert {result.structured_content["task_id"] for result in results} == {waiting.structured_content["task_id"]}
    assert other.is_error and len(await app.tasks.list(session_id="s")) == 1


async def test_an_approval_that_arrives_twice_approves_one_call() -> None:
    steps = [call_tool(("refund", {"amount": amount})) for amount in (5, 7)]
    agent = Agent(agent_id="shop", model=ScriptedChatModel([*steps, answer("Done.")]), tools=(refund,), mode="react")
    async with (
        segue.open(":memory:", agents=[agent]) as app,
        Client(AgentServer(app).server, elicitation_callback=Person()) as client,
    ):

        async def call(**options: Any) -> Any:
            return await client.session.call_tool(
                "shop", {"message": "refund twice"}, allow_input_required=True, **options
            )

        first = await call()
        for state in ("none", f"{first.request_state}-changed", f"{first.request_state.partition(':')[0]}:other"):
            with pytest.raises(MCPError, match="No question has this requestState"):
                await call(request_state=state)
        approved = {"answer": ElicitResult(action="accept", content={"verdict": "approve"})}
        for _ in range(2):
            second = await call(request_state=first.request_state, input_responses=approved)
            assert second.input_requests["answer"].params.message == "Approve refund(amount=7)?"
        at_once = await asyncio.gather(
            *(call(request_state=second.request_state, input_responses=approved) for _ in range(2))
        )
        assert [said(done) for done in at_once] == ["Done.", "Done."]
        (row,) = await app.tasks.list()
        assert len((await app.trace(row.task_id)).calls) == 2


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
    with Served(database, ServerSettings(keys=KEYS, streams=2)) as served, served.client() as client:
        first, second, beta = (initialized(client, headers) for headers in (ALPHA, ALPHA, BETA))
        with client.stream("GET", "/mcp", headers=first) as one, client.stream("GET", "/mcp", headers=second) as two:
            assert (one.status_code, two.status_code) == (200, 200)
            refused = client.get("/mcp", headers=first)
            assert (refused.status_code, refused.json()["error"]["type"]) == (429, "TooManyStreams")
            with client.stream("GET", "/mcp", headers=beta) as other:
                assert other.status_code == 200
        stolen = {**first, **BETA}
        assert client.post("/mcp", headers=stolen, json=request("tools/list")).status_code == 404


def initialized(client: httpx.Client, headers: dict[str, str]) -> dict[str, str]:
    """The headers of a new session of a client before 2026-07-28."""
    headers = {**headers, "Accept": "application/json, text/event-stream"}
    info = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {}, "protocolVersion": LEGACY}
    response = client.post("/mcp", headers=headers, json=request("initialize", **info))
    headers |= {"Mcp-Session-Id": response.headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert client.post("/mcp", headers=headers, json=ready).status_code == 202
    return headers


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def first_id(response: httpx.Response) -> str:
    """The id of the first event of a stream."""
    return next(line for line in response.iter_lines() if line.startswith("id: ")).removeprefix("id: ")


def test_over_http_a_stream_that_broke_is_resumed_by_its_own_session(database: Path) -> None:
    call = request("tools/call", name="shop", arguments={"message": "apples"})
    with Served(database, agents=[shop()]) as served, served.client() as client:
        mine, other = initialized(client, {}), initialized(client, {})
        with client.stream("POST", "/mcp", headers=mine, json=call) as broken:
            last = first_id(broken)
        with client.stream("GET", "/mcp", headers={**mine, "Last-Event-ID": last}) as resumed:
            assert any("Heard apples." in line for line in resumed.iter_lines())
        with client.stream("POST", "/mcp", headers=other, json=request("tools/list")) as listed:
            assert first_id(listed) == last, "the ids are the same in each session"
        with client.stream("GET", "/mcp", headers={**other, "Last-Event-ID": last}) as stolen:
            text = next(line for line in stolen.iter_lines() if line.startswith("data: {"))
        assert "apples" not in text and '"tools"' in text


async def test_over_http_one_process_asks_and_several_say_what_to_send(database: Path) -> None:
    for one, expected in ((True, "Settled, 好的."), (False, "Approve refund(amount=5)?")):
        person = Person(verdict="approve")
        with Served(database, ServerSettings(one_process=one), agents=[shop()]) as served:
            async with opened(served.url, {}, mode="legacy", elicitation_callback=person) as client:
                result = await client.call_tool("shop", {"message": "please refund"})
        assert said(result).startswith(expected)
        assert len(person.asked) == one


def tenant(ctx: Any) -> str:
    """What the sessions of a client's tenant begin with."""
    return f"{ctx.session.client_params.client_info.name}:"


async def test_a_call_that_its_client_cancels_cancels_its_task(app: App) -> None:
    began = asyncio.Event()

    async def wait_for_ever() -> str:
        """Never ends."""
        began.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedChatModel([call_tool(("wait_for_ever", {})), answer("Done.")])
    budget = Budget(tool_seconds=600)
    app.register(Agent(agent_id="slow", model=model, tools=(wait_for_ever,), mode="react", budget=budget))
    server = AgentServer(app, tenant).server
    alpha, beta = (Implementation(name=name, version="1") for name in ("alpha", "beta"))
    async with (
        Client(server, mode="legacy", client_info=alpha) as client,
        Client(server, mode="legacy", client_info=beta) as other,
    ):
        call = asyncio.create_task(client.call_tool("slow", {"message": "wait"}))
        await began.wait()
        (row,) = await app.tasks.list()
        for request_id in range(9):
            about = CancelledNotificationParams(request_id=request_id)
            await other.session.send_notification(CancelledNotification(params=about))
        await asyncio.sleep(0.2)
        assert (await app.task(row.task_id)).status == "running", "another tenant's requests have the same ids"
        call.cancel()
        async for _ in app.follow(row.task_id):
            pass
        assert (await app.task(row.task_id)).status == "cancelled"
    began.clear()


async def test_sessions_are_resources_and_prompts_are_prompts(app: App) -> None:
    app.register(Agent(agent_id="poet", prompt="Answer in rhyme.", model=ScriptedChatModel(["Moon."]), mode="direct"))
    async with Client(AgentServer(app).server) as client:
        prompts = {prompt.name: prompt.description for prompt in (await client.list_prompts()).prompts}
        assert prompts["poet"] == "The agent poet." and "shop" not in prompts
        (message,) = (await client.get_prompt("poet")).messages
        assert message.content.text == "Answer in rhyme."
        for name, sentence in (("none", "no agent 'none'"), ("shop", "has no prompt")):
            with pytest.raises(MCPError, match=sentence):
                await client.get_prompt(name)
        await client.call_tool("poet", {"message": "June", "session_id": "a:b"})
        (resource,) = (await client.list_resources()).resources
        assert (resource.uri, resource.name, resource.title) == ("segue://sessions/a%3Ab", "a:b", "June")
        (template,) = (await client.list_resource_templates()).resource_templates
        ref = ResourceTemplateReference(type="ref/resource", uri=template.uri_template)
        for begin, names in (("a", ["a:b"]), ("b", [])):
            completed = await client.complete(ref, {"name": "session_id", "value": begin})
            assert completed.completion.values == names
        (content,) = (await client.read_resource(resource.uri)).contents
        assert [said["content"] for said in json.loads(content.text)] == ["June", "Moon."]
        for uri, sentence in (("segue://sessions/none", "no session 'none'"), ("file:///etc/passwd", "no resource")):
            with pytest.raises(MCPError, match=sentence):
                await client.read_resource(uri)


async def test_an_agent_may_take_arguments_instead_of_a_message(app: App) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Where."}, "days": {"type": "integer"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    model = ScriptedChatModel(lambda messages: f"Planned {messages[-1].content}")
    app.register(Agent(agent_id="trip", model=model, prompt="Plan.", mode="direct", arguments=schema))
    app.register(
        Agent(agent_id="desk", model=ScriptedChatModel(reply), tools=(refund,), mode="react", arguments=schema)
    )
    async with Client(AgentServer(app).server) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["trip"].input_schema == schema
        done = await client.call_tool("trip", {"city": "Rome", "days": 3})
        assert not done.is_error and '{"city": "Rome", "days": 3}' in said(done)
        for wrong, why in (({}, "'city' is a required property"), ({"city": 1}, "city: 1 is not of type 'string'")):
            refused = await client.call_tool("trip", wrong)
            assert refused.is_error and why in said(refused)
        waiting = await client.call_tool("desk", {"city": "please refund"})
        assert said(waiting) == "Approve refund(amount=5)?", "its tool takes no answer"
        (trip,) = [prompt for prompt in (await client.list_prompts()).prompts if prompt.name == "trip"]
        assert [(each.name, each.description, each.required) for each in trip.arguments] == [
            ("city", "Where.", True),
            ("days", None, False),
        ]
        with pytest.raises(MCPError, match="needs the arguments city"):
            await client.get_prompt("trip", {"days": "3"})
        messages = (await client.get_prompt("trip", {"city": "Rome"})).messages
        assert [message.content.text for message in messages] == ["Plan.", '{"city": "Rome"}']
    for wrong in ({"type": "string"}, {"type": "object", "properties": 1}):
        with pytest.raises(ValueError, match="schema"):
            Agent(agent_id="trip", arguments=wrong)


async def test_over_http_a_tenant_has_its_own_sessions_as_resources(database: Path) -> None:
    with Served(database, ServerSettings(keys=KEYS), agents=[shop()]) as served:
        async with opened(served.url, ALPHA) as client:
            await client.call_tool("shop", {"message": "apples", "session_id": "s"})
            assert [one.uri for one in (await client.list_resources()).resources] == ["segue://sessions/s"]
        async with opened(served.url, BETA) as client:
            assert (await client.list_resources()).resources == []
            with pytest.raises(MCPError, match="no session 's'"):
                await client.read_resource("segue://sessions/s")


async def test_the_bot_of_a_conversation_is_no_tool_and_no_prompt(database: Path) -> None:
    talk: dict[str, Any] = {"bot_mode": "segue:react", "bot_agent": "shop", "api_mode": "tools"}
    talk |= {"user_mode": "scripted_user", "script": ["apples", "please refund"]}
    with Served(database, ServerSettings(keys=KEYS), agents=[shop(prompt="Be kind.")]) as served:
        with served.client(headers=ALPHA) as alpha:
            alpha.post("/api/conversations", json=talk).raise_for_status()
            sessions = lambda: alpha.get("/api/sessions", params={"bots": True}).json()["items"]  # noqa: E731
            wait_until(lambda: len(sessions()) > 1)
            (bot,) = {session["agent_id"] for session in sessions() if session["session_id"].endswith(".bot")}
        async with opened(served.url, BETA) as client:
            assert bot not in [tool.name for tool in (await client.list_tools()).tools]
            assert bot not in [prompt.name for prompt in (await client.list_prompts()).prompts]
            with pytest.raises(MCPError, match="no agent"):
                await client.call_tool(bot, {"message": "apples"})


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
