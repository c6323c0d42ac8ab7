"""Apps and graphs over several event loops, threads and processes, and callers that are cancelled or interrupted."""

import asyncio
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from langchain_openai import ChatOpenAI
from openai import DefaultAsyncHttpxClient
from pydantic import SecretStr

import segue
from segue import Agent
from segue.core.errors import AppClosed, InsideEventLoop, OtherProcess
from segue.core.events import Event, TaskComplete
from segue.core.sync import run_sync
from segue.sync import SyncApp

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""What an event loop leaves open as it ends is closed by the garbage collector."""

HUMAN = {"messages": [("user", "hello")]}
REPLY = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}


class _KeepingAlive(BaseHTTPRequestHandler):
    """An endpoint whose connections are used again, as those of real ones are."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(REPLY).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _KeepingAlive) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
    gc.collect()


def by_name(url: str) -> Agent:
    return Agent(agent_id="a", model="openai:m", base_url=url, api_key=SecretStr("k"), protocol="native", mode="direct")


def by_object(url: str) -> Agent:
    chat = ChatOpenAI(model="m", base_url=url, api_key=SecretStr("k"), max_retries=0)
    return Agent(agent_id="a", model=chat, protocol="native", mode="direct")


@pytest.mark.parametrize("agent_of", [by_name, by_object])
def test_an_app_is_used_from_one_event_loop_after_the_other(
    database: Path, endpoint: str, agent_of: Callable[[str], Agent]
) -> None:
    async def opened() -> segue.App:
        return await segue.open(database, agents=[agent_of(endpoint)])

    app = asyncio.run(opened())
    for n in range(4):
        assert asyncio.run(app.ask(f"hello {n}", agent="a", session_id="s")).status == "done"
    asyncio.run(app.close())


@pytest.mark.parametrize("agent_of", [by_name, by_object])
def test_a_graph_is_invoked_from_synchronous_code_and_several_event_loops(
    endpoint: str, agent_of: Callable[[str], Agent]
) -> None:
    graph = segue.graph("react", agents=[agent_of(endpoint)])
    answers = []
    for _ in range(3):
        answers.append(graph.invoke(HUMAN)["messages"][-1].content)
        answers.append(asyncio.run(graph.ainvoke(HUMAN))["messages"][-1].content)
    assert answers == ["Hello."] * 6


def test_one_chat_model_serves_two_apps_in_two_event_loops(tmp_path: Path, endpoint: str) -> None:
    agent = by_object(endpoint)

    async def asked(name: str) -> str:
        async with segue.open(tmp_path / name, agents=[agent]) as app:
            return (await app.ask("hello", agent="a")).answer

    assert [asyncio.run(asked(f"{n}.db")) for n in range(3)] == ["Hello."] * 3


def test_an_http_client_of_ones_own_belongs_to_one_event_loop(endpoint: str) -> None:
    chat = ChatOpenAI(
        model="m", base_url=endpoint, api_key=SecretStr("k"), max_retries=0, http_async_client=DefaultAsyncHttpxClient()
    )
    graph = segue.graph("direct", agents=[Agent(agent_id="a", model=chat, protocol="native")])
    assert asyncio.run(graph.ainvoke(HUMAN))["messages"][-1].content == "Hello."
    assert "was used in another event loop" in asyncio.run(graph.ainvoke(HUMAN))["gave_up"]


async def test_closing_twice_does_nothing_and_use_after_it_says_so(database: Path) -> None:
    app = await segue.open(database)
    await app.close()
    await app.close()
    for use in (
        lambda: app.ask("hello"),
        app.resumable,
        lambda: app.tasks.usage(session_id="s"),
        lambda: app.preferences("u"),
    ):
        with pytest.raises(AppClosed, match="is closed"):
            await use()


# Cancelled callers.


async def _left_in(app: segue.App, leave: Callable[[int], Any]) -> None:
    """Each session takes the next message at once, however far the one before it had come when its caller left."""
    for awaits in range(0, 60, 3):
        await leave(awaits)
        assert (await app.ask("1 + 1", session_id=f"s{awaits}", mode="react", wait=5)).status == "done"
    assert not await app.resumable()


@pytest.mark.slow
async def test_a_caller_that_anyio_cancels_in_the_start_leaves_nothing_behind(database: Path) -> None:
    async with segue.open(database) as app:

        async def leave(awaits: int) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: app.ask("2 + 2", session_id=f"s{awaits}", mode="react"))
                for _ in range(awaits):
                    await asyncio.sleep(0)
                group.cancel_scope.cancel()

        await _left_in(app, leave)


@pytest.mark.slow
async def test_a_caller_that_asyncio_cancels_in_the_start_leaves_nothing_behind(database: Path) -> None:
    async with segue.open(database) as app:

        async def leave(awaits: int) -> None:
            asking = asyncio.create_task(app.ask("2 + 2", session_id=f"s{awaits}", mode="react"))
            for _ in range(awaits):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

        await _left_in(app, leave)


# Forks.

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def _in_fork(work: Callable[[], str]) -> str:
    """What `work` gives in a forked process."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sending.send(work()))
    process.start()
    assert receiving.poll(20), "the forked process hangs"
    said = str(receiving.recv())
    process.join(20)
    return said


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_graph_that_was_invoked_works_in_a_forked_process(endpoint: str) -> None:
    graph = segue.graph("react", agents=[by_name(endpoint)])

    def invoked() -> str:
        return str(graph.invoke(HUMAN)["messages"][-1].content)

    assert invoked() == "Hello."
    assert _in_fork(invoked) == "Hello."


@forks
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("use", ["ask", "close"])
def test_an_app_that_was_inherited_says_where_it_was_opened(database: Path, use: str) -> None:
    with segue.open_sync(database) as app:
        app.ask("hello")

        def used() -> str:
            try:
                app.ask("hello") if use == "ask" else app.close()
            except OtherProcess as error:
                return str(error)
            return "used"

        assert "was opened in another process" in _in_fork(used)
        assert app.ask("hello").status == "done"


# Synchronous code.


@segue.tool(keywords=["pay"], needs_approval=True)
def pay(order: int) -> str:
    """Pay an order."""
    return f"Order {order} is paid."


PAYING = Agent(agent_id="p", model="offline", tools=[pay], mode="react")


def test_synchronous_code_asks_approves_and_resumes(database: Path) -> None:
    with segue.open_sync(database, agents=[PAYING]) as app:
        waiting = app.ask("pay order 17", agent="p", session_id="s")
        assert waiting.status == "waiting"
    with segue.open_sync(database, agents=[PAYING]) as app:
        assert "Order 17 is paid." in app.answer(waiting.task_id, "approve").answer
        events: list[Event] = [*app.chat("hello", agent="p", session_id="s")]
        assert any(isinstance(event, TaskComplete) for event in events)
        assert app.run(lambda opened: opened.history("s"))[0]["content"] == "pay order 17"
    with pytest.raises(AppClosed):
        app.ask("hello")
    app.close()


def test_threads_share_a_synchronous_app(database: Path) -> None:
    with segue.open_sync(database) as app:
        results: list[str] = []
        threads = [
            threading.Thread(target=lambda n=n: results.append(app.ask("1 + 1", session_id=f"s{n}").status))
            for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == ["done"] * 4


async def test_a_synchronous_app_works_beside_a_running_event_loop(database: Path) -> None:
    with segue.open_sync(database) as app:
        assert app.ask("hello").status == "done"


def test_a_synchronous_app_refuses_its_own_event_loop(database: Path) -> None:
    with segue.open_sync(database) as app:

        async def inside(app: SyncApp) -> None:
            app.ask("hello")

        with pytest.raises(InsideEventLoop, match=r"segue\.open_sync cannot run inside"):
            run_sync(inside(app))


@pytest.mark.slow
def test_a_graph_of_synchronous_code_stops_what_ctrl_c_interrupts(tmp_path: Path) -> None:
    """The process waits until what it began has stopped."""
    done = subprocess.run([sys.executable, "-c", GRAPH], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["started", "stopped", "interrupted"], done.stderr


@pytest.mark.slow
def test_what_is_closed_while_the_interpreter_exits_is_closed_as_at_any_time(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["effects.db", "x.db"]


AT_EXIT = """
import asyncio, atexit, segue

async def open():
    return await segue.open("x.db")

app, ledger = asyncio.run(open()), segue.Ledger("effects.db")
atexit.register(ledger.close)
atexit.register(lambda: asyncio.run(app.close()))
other = segue.open_sync("x.db")
atexit.register(other.close)
print(other.ask("2 + 2").status)
"""
GRAPH = """
import _thread, asyncio, segue

@segue.tool(keywords=["slow"])
async def slow(x: int) -> str:
    "Be slow."
    print("started", flush=True)
    _thread.interrupt_main()
    try:
        await asyncio.sleep(300)
    finally:
        print("stopped", flush=True)

graph = segue.graph("react", agents=[segue.Agent(agent_id="s", model="offline", tools=[slow])])
try:
    graph.invoke({"messages": [("user", "slow 1")]})
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
SCRIPT = """
import {imported}, segue

@segue.tool(keywords=["slow"])
async def slow(x: int) -> str:
    "Be slow."
    print("started", flush=True)
    await asyncio.sleep(300)
    return "done"

agents = [segue.Agent(agent_id="s", model="offline", tools=[slow], mode="react")]
"""
ASYNCHRONOUS = """
async def main():
    async with segue.open("x.db", agents=agents) as app:
        await app.ask("slow 1", agent="s", session_id="k")
asyncio.run(main())
"""
SYNCHRONOUS = """
with segue.open_sync("x.db", agents=agents) as app:
    app.ask("slow 1", agent="s", session_id="k")
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [ASYNCHRONOUS, SYNCHRONOUS], ids=["open", "open_sync"])
def test_ctrl_c_says_how_to_go_on_and_a_second_one_ends_the_script(tmp_path: Path, code: str) -> None:
    script = SCRIPT.format(imported="asyncio") + code
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGINT)
        said = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)

    async def left() -> list[str]:
        async with segue.open(tmp_path / "x.db") as app:
            return [each.task_id for each in await app.resumable()]

    (task_id,) = asyncio.run(left())
    assert f"segue resume {task_id} --db x.db" in said
