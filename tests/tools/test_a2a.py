"""Agents elsewhere as tools, over A2A: a service on this machine has them."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import pytest
from a2a.helpers import new_data_part
from a2a.types import AgentCard, Artifact, Part, Task, TaskState, TaskStatus

import segue
from segue.core.agents import Agent, RemoteAgent, load_agents
from segue.core.calls import FRESH, CallKey, CallStatus, Claim, Execution
from segue.core.errors import ToolServerUnavailable
from segue.registry import Registry, served_tools
from segue.runtime.start import Request
from segue.server import ServerSettings
from segue.tools.adapters.a2a import REPEATS_JOIN, RemoteAgentError, RemoteAgents, RemoteAgentTool, _result
from segue.tools.bound_tool import CallContext, current_call
from segue.tools.calls import TOOLS
from tests.cases import cases
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import wait_until
from tests.ports import free_port
from tests.server.serving import ALPHA, KEYS, Held, Served
from tests.server.shop import refund, reply


@pytest.fixture(scope="module")
def held() -> Held:
    return Held()


@pytest.fixture(scope="module")
def served(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("remote") / "segue.db"
    settings = ServerSettings(keys=KEYS, chats_a_minute=10_000)
    with Served(path, settings, agents=[held.agent("shop", reply, tools=(refund,), description="Sells fruit.")]) as it:
        yield it


def remote(served: Served, **fields: Any) -> RemoteAgent:
    return RemoteAgent(name="shop", url=f"{served.url}/a2a/shop", headers=ALPHA, **fields)  # type: ignore[arg-type]


def desk(served: Served, **fields: Any) -> Agent:
    """An agent that hands on what it is told, and answers what the shop asks."""

    def hand_on(messages: Any) -> str:
        text = "\n".join(str(message.content) for message in messages)
        for known in ("Settled", "Heard apples."):
            if known in text:
                return answer(f"The shop says: {known}")
        if "refund(amount=5)" in text:
            task_id = re.findall(r'"task_id":\s*"([0-9a-f-]{36})",\s*"answer_with"', text)[-1]
            return call_tool(("shop", {"message": "yes", "task_id": task_id}))
        return call_tool(("shop", {"message": "please refund" if "refund" in text else "apples"}))

    return Agent(agent_id="desk", model=ScriptedChatModel(hand_on), a2a=(remote(served, **fields),), mode="react")


def tasks(served: Served) -> list[Any]:
    with served.client(headers=ALPHA) as http:
        items: list[Any] = http.get("/api/agents/shop/tasks", params={"limit": 500}).json()["items"]
        return items


async def test_an_agent_elsewhere_answers_and_its_card_describes_it(served: Served, tmp_path: Path) -> None:
    agent = desk(served)
    async with segue.open(tmp_path / "a.db", agents=[agent]) as app:
        assert (await app.ask("What do they hear?", agent="desk")).answer == "The shop says: Heard apples."
        spec = app.agents.tools_for(agent)["shop"].spec["function"]
    assert "Sells fruit." in spec["description"] and spec["parameters"]["required"] == ["message"]


async def test_what_the_agent_asks_is_a_result_that_a_further_call_answers(served: Served, tmp_path: Path) -> None:
    before = len(tasks(served))
    async with segue.open(tmp_path / "a.db", agents=[desk(served)]) as app:
        result = await app.ask("Get a refund.", agent="desk")
        calls = (await app.trace(result.task_id)).calls
    assert result.answer == "The shop says: Settled" and len(calls) == 2
    assert calls[0].outcome["success"]["question"].startswith("Approve")
    assert len(tasks(served)) == before + 1 and tasks(served)[0]["status"] == "done"


async def test_a_call_that_was_interrupted_finds_its_task_again(served: Served, held: Held) -> None:
    held.begun.clear()
    before = len(tasks(served))
    (tool,) = await RemoteAgents().open([remote(served)])
    current_call.set(CallContext(idempotency_key="k1", tool="shop"))
    first = asyncio.create_task(tool.call({"message": "please hold"}))
    await asyncio.to_thread(held.begun.wait, 60)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    held.go.set()
    current_call.set(CallContext(idempotency_key="k1", tool="shop", attempt=2))
    assert await tool.call({"message": "please hold"}) == "Settled, 好的."
    assert len(tasks(served)) == before + 1
    assert held.effects.count("one") == 1


def interrupted(tool: RemoteAgentTool, arguments: dict[str, Any], key: str, moved: bool = False) -> Execution:
    """A call that was under way when its process ended."""
    claim = Claim("interrupted", moved=moved)
    place = CallKey("task", "scope", 0)
    about: dict[str, Any] = {"key": place, "name": "shop", "tools": {"shop": tool}, "timeout": 30, "claim": claim}
    return Execution(**about, arguments=arguments, idempotency_key=key)


async def test_an_interrupted_call_is_made_again_only_where_it_joins_its_task(served: Served, held: Held) -> None:
    held.go.set()
    (tool,) = await RemoteAgents().open([remote(served)])
    card = AgentCard()
    card.CopyFrom(tool.card)
    del card.capabilities.extensions[:]
    stranger = replace(tool, card=card)  # an agent that does not say so
    before, apples = len(tasks(served)), {"message": "apples"}
    assert (await TOOLS.execute(interrupted(tool, apples, "new"))).value == "Heard apples."
    assert (await TOOLS.execute(interrupted(stranger, apples, "new"))).value == "Heard apples."
    for other in (
        interrupted(stranger, apples, "never sent"),
        interrupted(tool, apples, "elsewhere", moved=True),
    ):
        assert (await TOOLS.execute(other)).status is CallStatus.UNKNOWN
    assert len(tasks(served)) == before + 1
    asked = await TOOLS.execute(replace(interrupted(tool, {"message": "please refund"}, "ask"), claim=FRESH))
    answers = {"message": "yes", "task_id": asked.value["task_id"]}
    assert (await TOOLS.execute(interrupted(stranger, answers, "yes"))).status is CallStatus.UNKNOWN
    for each in (tool, tool, stranger):
        assert (await TOOLS.execute(interrupted(each, answers, "yes"))).value == "Settled, 好的."
    assert len(tasks(served)) == before + 2


class Elsewhere(ThreadingHTTPServer):
    """The shop behind a gateway that fails, holds or changes requests by their method; its repeats do not join.

    It answers messages with the `error`, if it has one, after the shop has begun the task.
    """

    def __init__(self, served: Served, tool: RemoteAgentTool) -> None:
        gateway, self.methods, self.failing, self.holding = self, list[str](), set[tuple[str, int]](), Event()
        self.error, self.extensions = 0, list[str | None]()
        self.holding.set()

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                method = request["method"]
                gateway.methods.append(method)
                gateway.extensions.append(self.headers["A2A-Extensions"])
                if method in ("SendMessage", "message/send") and not gateway.holding.is_set():
                    gateway.holding.wait(60)
                    return
                if method == "ListTasks":
                    request["params"].pop("contextId")
                status, body = 502, b""
                if (method, gateway.methods.count(method)) not in gateway.failing:
                    with served.client(headers={**ALPHA, "A2A-Version": "1.0"}) as http:
                        response = http.post("/a2a/shop", json=request)
                    status, body = response.status_code, response.content
                if method == "SendMessage" and gateway.error:
                    error = {"code": gateway.error, "message": "it broke"}
                    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), _Handler)
        card = AgentCard()
        card.CopyFrom(tool.card)
        del card.capabilities.extensions[:]
        del card.supported_interfaces[1:]
        card.supported_interfaces[0].url = f"http://127.0.0.1:{self.server_address[1]}"
        self.tool = replace(tool, card=card)

    def __enter__(self) -> Self:
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        self.holding.set()
        self.shutdown()
        super().__exit__(*_)


async def test_an_interrupted_call_is_not_sent_again_where_its_task_cannot_be_looked_for(served: Served) -> None:
    (tool,) = await RemoteAgents().open([remote(served)])
    apples = {"message": "apples"}
    with Elsewhere(served, tool) as elsewhere:
        begun = replace(interrupted(elsewhere.tool, apples, "begun"), claim=FRESH)
        assert (await TOOLS.execute(begun)).value == "Heard apples."
        for number in (1, 2):
            elsewhere.methods.clear()
            elsewhere.failing = {("ListTasks", number)}  # when the check looks for it, or the call
            again = await TOOLS.execute(interrupted(elsewhere.tool, apples, "begun"))
            assert again.status is CallStatus.UNKNOWN and elsewhere.methods == ["ListTasks"] * number
        reads = replace(elsewhere.tool, marks=replace(tool.marks, read_only=True))
        assert (await TOOLS.execute(interrupted(reads, apples, "read"))).value == "Heard apples."


@cases(
    "code, status",
    [(-32603, CallStatus.UNKNOWN), (-32006, CallStatus.UNKNOWN), (-32099, CallStatus.UNKNOWN)]
    + [(code, CallStatus.FAILED) for code in (-32602, -32600, -32601, -32001, -32004, -32005)],
)
async def test_only_an_error_that_refuses_the_message_says_that_nothing_was_begun(
    served: Served, code: int, status: CallStatus
) -> None:
    (tool,) = await RemoteAgents().open([remote(served)])
    with Elsewhere(served, tool) as elsewhere:
        elsewhere.error = code
        call = replace(interrupted(elsewhere.tool, {"message": "apples"}, f"error{code}"), claim=FRESH)
        told = await TOOLS.execute(call)
    assert told.status is status and "it broke" in told.error
    assert ("refused the message" in told.error) == (status is CallStatus.FAILED)


async def test_an_agent_that_joins_repeats_is_told_that_they_are_meant_to(served: Served) -> None:
    (tool,) = await RemoteAgents().open([remote(served)])
    with Elsewhere(served, tool) as elsewhere:
        await elsewhere.tool.call({"message": "apples"})
        assert {*elsewhere.extensions} == {None}
        elsewhere.tool.card.capabilities.CopyFrom(tool.card.capabilities)
        await elsewhere.tool.call({"message": "apples"})
    assert {*elsewhere.extensions} == {None, REPEATS_JOIN}


async def test_a_call_takes_and_cancels_no_task_of_another_caller(served: Served, held: Held) -> None:
    held.go.clear()
    held.begun.clear()
    (tool,) = await RemoteAgents().open([remote(served)])
    pears = {"message": "pears"}
    with Elsewhere(served, tool) as elsewhere:
        own = replace(interrupted(elsewhere.tool, pears, "own"), claim=FRESH)
        assert (await TOOLS.execute(own)).value == "Heard pears."
        current_call.set(CallContext(idempotency_key="another", tool="shop"))
        others = asyncio.create_task(tool.call({"message": "please hold"}))
        await asyncio.to_thread(held.begun.wait, 60)
        elsewhere.holding.clear()
        (interface,) = elsewhere.tool.card.supported_interfaces
        for interface.protocol_version in ("0.3", "1.0"):  # the former lists no tasks
            lost = replace(interrupted(elsewhere.tool, pears, "lost"), claim=FRESH, timeout=0.2)
            assert (await TOOLS.execute(lost)).status is CallStatus.UNKNOWN
        assert tasks(served)[0]["status"] == "running", "the other caller's task goes on"
        elsewhere.holding.set()
        held.go.set()
        assert await others == "Settled, 好的."
        assert (await TOOLS.execute(interrupted(elsewhere.tool, pears, "own"))).value == "Heard pears."
        assert (await TOOLS.execute(interrupted(elsewhere.tool, pears, "none"))).status is CallStatus.UNKNOWN
        assert (await TOOLS.execute(replace(own, arguments={"message": "plums"}))).value == "Heard pears, plums."
        two = await TOOLS.execute(interrupted(elsewhere.tool, pears, "own"))
        assert two.status is CallStatus.UNKNOWN, "either of the context's tasks may be the call's"


async def test_what_is_cancelled_or_takes_too_long_is_cancelled_there(
    served: Served, held: Held, tmp_path: Path
) -> None:
    held.go.clear()
    held.begun.clear()
    hold = call_tool(("shop", {"message": "please hold"}))
    (tool,) = await RemoteAgents().open([remote(served)])
    late = replace(interrupted(tool, {"message": "please hold"}, "late"), claim=FRESH, timeout=0.5)
    assert "took longer than 0.5 s and was cancelled" in (await TOOLS.execute(late)).error
    assert tasks(served)[0]["status"] == "cancelled"
    held.begun.clear()
    agent = Agent(agent_id="desk", model=ScriptedChatModel([hold]), a2a=(remote(served),), mode="react")
    async with segue.open(tmp_path / "a.db", agents=[agent]) as app:
        row, _ = await app.tasks.start(Request("Hold it.", agent="desk"))
        await asyncio.to_thread(held.begun.wait, 60)
        await app.cancel(row.task_id)
        await asyncio.to_thread(wait_until, lambda: tasks(served)[0]["status"] == "cancelled")
    held.go.set()


async def test_a_failure_elsewhere_is_the_calls_error(served: Served) -> None:
    (tool,) = await RemoteAgents().open([remote(served)])
    with pytest.raises(RemoteAgentError, match=r"ended failed: .*the endpoint is down"):
        await tool.call({"message": "please fail"})


async def test_an_agent_that_cannot_be_reached_or_has_no_card_is_named(served: Served, tmp_path: Path) -> None:
    for url, why in ((f"http://127.0.0.1:{free_port()}", "Network communication"), (f"{served.url}/a2a/none", "404")):
        gone = RemoteAgent(name="shop", url=url, headers=ALPHA)  # type: ignore[arg-type]
        agent = Agent(agent_id="desk", a2a=(gone,))
        with pytest.raises(ToolServerUnavailable, match=f"The A2A agent 'shop' cannot be used: .*{why}"):
            await Registry([agent]).prepare(agent)
        assert why in (await served_tools([agent]))["desk"]


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """A server whose every answer is this JSON."""

    class _Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


async def test_a_card_sends_the_headers_to_no_other_address_and_is_bounded(served: Served) -> None:
    with served.client(headers=ALPHA) as http:
        card = http.get("/a2a/shop/.well-known/agent-card.json").content
    for body, why in (
        (card, "its card names only other addresses"),
        (b"[" * 200 + b"]" * 200, "100 levels"),
        (b"[" + b"1," * 200_000 + b"1]", "100,000 JSON values"),
        (b" " * 20_000_001, "20,000,000 bytes"),
    ):
        with answering(body) as url, pytest.raises(ToolServerUnavailable, match=why):
            await RemoteAgents().open([RemoteAgent(name="shop", url=url, headers=ALPHA)])  # type: ignore[arg-type]


CHILD = """
import asyncio, sys
import segue
from segue.core.agents import Agent, RemoteAgent
from tests.fakes import ScriptedChatModel, answer, call_tool

def reply(messages):
    told = "Settled" in "".join(str(message.content) for message in messages)
    return answer("Told.") if told else call_tool(("shop", {"message": "please hold"}))

async def main(path, url, key):
    remote = RemoteAgent(name="shop", url=url, headers={"Authorization": key})
    agent = Agent(agent_id="desk", model=ScriptedChatModel(reply), a2a=(remote,), mode="react")
    async with segue.open(path, agents=[agent]) as app:
        for row in await app.tasks.resumable():
            print((await app.resume(row.task_id)).answer)
            return
        await app.ask("Hold it.", agent="desk")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_process_that_is_killed_in_a_call_finds_the_one_task_again(
    served: Served, held: Held, tmp_path: Path
) -> None:
    held.go.clear()
    held.begun.clear()
    held.effects.clear()
    before = len(tasks(served))
    url = f"{served.url}/a2a/shop"
    command = [sys.executable, "-c", CHILD, str(tmp_path / "desk.db"), url, ALPHA["Authorization"]]
    with subprocess.Popen(command) as first:
        assert held.begun.wait(60)
        first.kill()
    held.go.set()
    again = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert again.stdout.strip() == "Told."
    assert len(tasks(served)) == before + 1 and held.effects == ["one"]


def test_the_agents_file_has_a_table_for_each(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text('[[agent]]\nagent_id = "desk"\n[[agent.a2a]]\nname = "shop"\nurl = "https://a.example/a2a/shop"\n')
    (agent,) = load_agents(file)
    assert agent.a2a[0].url == "https://a.example/a2a/shop" and not agent.a2a[0].needs_approval


async def test_what_a_card_says_is_foreign_text_unless_the_agents_file_says_it(served: Served) -> None:
    agent = desk(served)
    own = agent.model_copy(update={"agent_id": "own", "a2a": (remote(served, description="Sells fruit, we think."),)})
    async with segue.open(":memory:", agents=[agent, own]) as app:
        for each, text in ((agent, "Sells fruit."), (own, "")):
            await app.agents.prepare(each)
            assert text in app.agents.tools_for(each)["shop"].foreign_text
        assert not app.agents.tools_for(own)["shop"].foreign_text


def test_an_artifact_has_texts_data_and_files() -> None:
    parts = [
        Part(text="Here:"),
        Part(raw=b"a,b", filename="t.csv", media_type="text/csv"),
        Part(raw=b"\xff\xd8", filename="p.jpg", media_type="image/jpeg"),
        Part(url="https://example.com/r.pdf", filename="r.pdf", media_type="application/pdf"),
        new_data_part({"n": 1}),
    ]
    task = Task(status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED), artifacts=[Artifact(parts=parts)])
    assert _result("shop", task) == (
        'Here:\n[file: t.csv]\na,b\n[file: p.jpg, 2 bytes]\n[file: r.pdf, https://example.com/r.pdf]\n{"n": 1.0}'
    )
