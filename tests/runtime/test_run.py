"""Running tasks: how many at once, replies that cannot be carried out, and a database that fails."""

import os
import sqlite3
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk

import segue
from segue.app import App
from segue.checkpoints.ledger import ToolLedger
from segue.core.agents import Agent
from segue.core.calls import Claim
from segue.core.errors import ConfigurationError, DatabaseUnavailable, TooManyTasks
from segue.graphs.direct import build_direct
from tests.cases import cases
from tests.checkpoints import worlds
from tests.fakes import ScriptedChatModel, answer, call_tool, remend
from tests.polling import until


class Work:
    """A synchronous tool that is held until the gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun: list[int] = []
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()

    def work(self, number: int) -> int:
        """Do the work of that number."""
        with self._lock:
            self.begun.append(number)
            self._running += 1
            self.most = max(self.most, self._running)
        self.gate.wait(30)
        with self._lock:
            self._running -= 1
        return number


@asynccontextmanager
async def working(count: int, running: int, queued: int = 100) -> AsyncIterator[tuple[App, Work, list[str]]]:
    """An app that runs so many tasks, each under an agent of its own."""
    held = Work()
    async with segue.open(":memory:", max_running=running, max_queued=queued) as app:
        for number in range(count):
            script = [call_tool(("work", {"number": number})), answer("ok")]
            app.register(
                Agent(agent_id=f"a{number}", model=ScriptedChatModel(script), tools=(held.work,), mode="react")
            )
        started = [await app.start("go", agent=f"a{number}") for number in range(count)]
        try:
            yield app, held, [row.task_id for row in started]
        finally:
            held.gate.set()


async def ended(app: App, task_id: str) -> str:
    async for _ in app.follow(task_id):
        pass
    return str((await app.task(task_id)).status)


@pytest.mark.slow
async def test_many_tasks_use_few_threads_and_descriptors_and_run_in_their_order() -> None:
    before, others = len(os.listdir("/proc/self/fd")), {*threading.enumerate()}
    async with working(12, running=3) as (app, held, tasks):
        await until(lambda: len(held.begun) == 3)
        names = [thread.name for thread in threading.enumerate() if thread not in others]
        assert sum(name.startswith("tool") for name in names) == 3
        assert names.count("segue-heartbeat") == 1
        assert len(os.listdir("/proc/self/fd")) - before < 40
        assert [(await app.task(task_id)).status for task_id in tasks] == ["running"] * 3 + ["pending"] * 9
        assert len(app.tasks.running()) == 12
        held.gate.set()
        assert {await ended(app, task_id) for task_id in tasks} == {"done"}
        assert held.most <= 3
        assert held.begun[:3] + sorted(held.begun[3:]) == [*sorted(held.begun[:3]), *range(3, 12)]


async def test_a_task_in_the_queue_can_be_paused_cancelled_and_resumed() -> None:
    async with working(3, running=1) as (app, held, tasks):
        await until(lambda: held.begun)
        await app.pause(tasks[1])
        assert await ended(app, tasks[1]) == "paused"
        await app.cancel(tasks[2])
        assert (await app.task(tasks[2])).status == "cancelled"
        held.gate.set()
        assert (await app.resume(tasks[1]))["answer"] == "ok"
        assert await ended(app, tasks[0]) == "done"
        assert held.begun == [0, 1]


async def test_a_full_queue_refuses_new_messages_and_stores_nothing() -> None:
    async with working(2, running=1, queued=1) as (app, held, tasks):
        with pytest.raises(TooManyTasks, match="1 running and 1 queued"):
            await app.start("go", agent="a0", session_id="late")
        assert await app.tasks.list(session_id="late") == []
        held.gate.set()
        assert [await ended(app, task_id) for task_id in tasks] == ["done", "done"]


async def test_a_task_that_another_one_starts_needs_no_place() -> None:
    async with segue.open(":memory:", max_running=1) as app:

        async def delegate(question: str) -> str:
            """Ask the other agent."""
            return str((await app.ask(question, agent="inner"))["answer"])

        app.register(Agent(agent_id="inner", model=ScriptedChatModel([answer("42")]), mode="react"))
        script = [call_tool(("delegate", {"question": "?"})), answer("done")]
        app.register(Agent(agent_id="outer", model=ScriptedChatModel(script), tools=(delegate,), mode="react"))
        assert (await app.ask("go", agent="outer"))["answer"] == "done"


async def test_the_environment_sets_how_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_MAX_RUNNING", "none")
    with pytest.raises(ConfigurationError, match="SEGUE_MAX_RUNNING must be a whole number of at least 1, not 'none'"):
        async with segue.open(":memory:"):
            pass


# Replies that cannot be carried out: nothing is run, the model is asked again, and the session goes on.


ORDER = {"order_id": 1}


def native(name: Any, arguments: Any = ORDER, call_id: Any = "c") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": call_id}])


def fragments(*pieces: dict[str, Any]) -> AIMessageChunk:
    return AIMessageChunk(
        "", tool_call_chunks=[{"type": "tool_call_chunk", "index": None, "id": None, "name": None, **p} for p in pieces]
    )


FAILING = native("lookup", {"order_id": 0})
BAD: dict[str, tuple[str, list[Any]]] = {
    "native, empty": ("native", [native("")]),
    "native, blank": ("native", [native("  ")]),
    "native, a NUL": ("native", [native("a\x00b")]),
    "native, long": ("native", [native("x" * 100_000)]),
    "native, beside a good one": ("native", [AIMessage("", tool_calls=[*FAILING.tool_calls, *native("").tool_calls])]),
    "native, two ids": ("native", [fragments({"id": "a", "name": "lookup"}, {"id": "b", "args": '{"order_id": 9}'})]),
    "native, no name": ("native", [fragments({"args": '{"order_id": 9}'})]),
    "native, NaN": ("native", [native("lookup", {"order_id": float("nan")})]),
    "native, huge": ("native", [native("lookup", {"order_id": 10**30})]),
    "native, a half": ("native", [native("lookup", {"order_id": "\ud800"}, "\ud800")]),
    "remend, native": ("native", [FAILING, native("remend", {"diagnosis": "d", "tool_calls": [{"name": ""}]})]),
    "json": ("json", [call_tool(("", ORDER))]),
    "json, a half": ("json", [call_tool(("\ud800", ORDER))]),
    "remend, json": ("json", [call_tool(("lookup", {"order_id": 0})), remend("d", calls=[("", ORDER)])]),
    "two decisions": ("json", [call_tool(("lookup", {"order_id": 9})) + answer("no")]),
    "a thought": ("json", [f"[THINK]{call_tool(('lookup', {'order_id': 9}))}"]),
}


@cases("protocol, script", BAD.values())
async def test_a_reply_that_cannot_be_carried_out_leaves_the_session_usable(
    app: App, protocol: str, script: list[Any]
) -> None:
    ran: list[int] = []

    def lookup(order_id: int) -> str:
        """Look up an order."""
        ran.append(order_id)
        if not order_id:
            raise ValueError("no such order")
        return "sent"

    ends = ["one", "two"] if protocol == "native" else [answer("one"), answer("two")]
    model = ScriptedChatModel([*script, *ends])
    name = f"agent-{id(model)}"
    app.register(Agent(agent_id=name, model=model, tools=(lookup,), mode="react", protocol=protocol))
    for said in ("first", "second"):
        assert (await app.ask(said, agent=name, session_id=name))["success"]
    assert set(ran) <= {0}


# Tasks that the database failed: they stay resumable.


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[worlds.World]:
    async with worlds.world(str(tmp_path / "segue.db")) as world:
        world.register("a", worlds.note_up_to(1), "react")
        yield world


async def full(world: worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full, and stays so."""
    session = world.app._storage.database._session
    connect = session._connect

    def bounded() -> sqlite3.Connection:
        connection = connect()
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(session, "_connect", bounded)
    await world.app._storage.database.write(lambda db: db.execute("PRAGMA max_page_count = 1").fetchall())


async def locked(world: worlds.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has the lock for a while."""

    async def claim(self: ToolLedger, *call: Any, **options: Any) -> Claim:
        monkeypatch.undo()
        raise DatabaseUnavailable("The database is locked by another process.")

    monkeypatch.setattr(ToolLedger, "claim", claim)


@pytest.mark.parametrize(("trouble", "statuses"), [(full, {"running", "paused"}), (locked, {"paused"})])
async def test_a_task_that_the_database_failed_is_resumed_with_all_others(
    world: worlds.World, monkeypatch: pytest.MonkeyPatch, trouble: Any, statuses: set[str]
) -> None:
    """On a full disk, the last page may have room for the status or not."""
    row = await world.app.start("note " * 2000, session_id="s", agent="a")
    await trouble(world, monkeypatch)
    async for _ in world.app.follow(row.task_id):
        pass
    (task,) = await world.app.resumable()
    assert task.status in statuses
    assert task.requested is None
    await world.app._storage.database.write(lambda db: db.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert (await world.app.resume(task.task_id))["answer"] == "all noted"
    assert set(world.noted) == {1}


async def test_an_app_that_cannot_be_built_leaves_no_database_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ValueError, match="reserved") as refused:
        await segue.open(":memory:", modes={"__start__": build_direct()})
    assert not os.listdir(tmp_path), refused.traceback
