"""A person is asked before a call, and adds to a task that stands: through the app, over several openings."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import TaskError
from segue.core.events import Event, NotesMoved
from segue.core.records import Task
from segue.runtime.relay import Observer
from segue.runtime.start import Request
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import until


class Till:
    """A tool that pays, if a person agrees, and one that looks."""

    def __init__(self) -> None:
        self.paid: list[int] = []

        @tool(needs_approval=True)
        def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        @tool
        def note(text: str) -> str:
            """Write something down."""
            return f"noted {text}"

        self.tools = (pay, note)


def register(app: App, till: Till, script: list[Any], **fields: Any) -> None:
    model = ScriptedChatModel(script)
    app.register(Agent(**{"agent_id": "a", "model": model, "tools": till.tools, "mode": "react", **fields}))


BATCH = call_tool(("note", {"text": "x"}), ("pay", {"amount": 5}), ("pay", {"amount": 7}))


async def test_a_message_joins_a_paused_task(database: Path) -> None:
    till = Till()
    gate, entered = asyncio.Event(), asyncio.Event()
    seen: list[str] = []

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    def look(messages: list[Any]) -> str:
        seen.append(str(messages[0].content))
        return answer("both")

    till.tools = (slow,)  # type: ignore[assignment]
    async with segue.open(database) as app:
        register(app, till, [call_tool(("slow", {})), look])
        row = await app.start("first", session_id="s", agent="a")
        await entered.wait()
        asyncio.get_running_loop().call_later(0.2, gate.set)
        result = await app.ask("and cheap, please", session_id="s", agent="a", steer=True)
        assert (result["task_id"], result["answer"]) == (row.task_id, "both")
        assert seen == ["first\nand cheap, please"]
        assert "steered" in [event.type for event in (await app.trace(row.task_id)).events]
        said = [m["content"] for m in await app.history("s") if m["role"] == "user"]
        assert said == ["first", "and cheap, please"]
        assert len(await app.tasks.list()) == 1


async def test_what_is_added_while_a_tool_runs_is_stored_at_once_and_survives_the_process(tmp_path: Path) -> None:
    gate, entered, file = asyncio.Event(), asyncio.Event(), tmp_path / "segue.db"

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    till, seen = Till(), list[str]()
    till.tools = (slow,)  # type: ignore[assignment]

    def look(messages: list[Any]) -> str:
        seen.append(str(messages[0].content))
        return answer("both")

    async with segue.open(file) as app:
        register(app, till, [call_tool(("slow", {}))])
        row = await app.start("first", session_id="s", agent="a")
        await entered.wait()
        for line in ("and cheap", "and fast"):
            await app.tasks.accept(Request(line, session_id="s", agent="a", steer=True))
        copy = _copied(file)  # what a kill leaves while the tool runs
        app.stop_now(row.task_id)
    gate.set()
    async with segue.open(copy) as app:
        register(app, till, [look])
        assert (await app.task(row.task_id)).notes == ["and cheap", "and fast"]
        await app._runner.leases.expire("s", await app._runner.leases.last_owner("s"))
        await app.resume(row.task_id)
        said = [m["content"] for m in await app.history("s") if m["role"] == "user"]
        assert (seen, said) == (["first\nand cheap\nand fast"], ["first", "and cheap", "and fast"])


async def test_what_is_added_while_a_task_is_about_to_pause_is_stored_at_once_and_continues_it(database: Path) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    till = Till()
    till.tools = (slow,)  # type: ignore[assignment]
    async with segue.open(database) as app:
        register(app, till, [call_tool(("slow", {})), answer("both")])
        row = await app.start("first", session_id="s", agent="a")
        await entered.wait()
        pausing = asyncio.create_task(app.pause(row.task_id))

        async def asked() -> bool:
            return (await app._runner.tasks.get(row.task_id)).requested == "pause"

        await until(asked)
        accepted = await app.tasks.accept(Request("and cheap", session_id="s", agent="a", steer=True))
        assert (accepted.notes, gate.is_set()) == (["and cheap"], False)
        gate.set()
        await pausing

        async def over() -> bool:
            return (await app.task(row.task_id)).status == "done"

        await until(over)
        assert (await app.task(row.task_id)).result["answer"] == "both"


async def test_what_comes_too_late_for_the_answer_begins_the_next_task(database: Path) -> None:
    async with segue.open(database) as app:

        def decide(_: Any) -> str:
            for task_id in [*app._runner._runs]:
                app._runner._pause_run(task_id)  # before the answer is written
            return answer("one")

        app.register(Agent(agent_id="a", model=ScriptedChatModel([decide, answer("two")]), mode="react"))
        row = await app.start("first", session_id="s", agent="a")
        async for _ in app.follow(row.task_id):
            pass
        for _ in range(2):
            result = await app.ask("more", session_id="s", agent="a", steer=True, idempotency_key="k")
            later, earlier = await app.tasks.list()
            assert (result.task_id, result["answer"], later.message) == (later.task_id, "two", "more")
            assert (earlier.notes, earlier.result["answer"]) == ([], "one")
        said = [m["content"] for m in await app.history("s") if m["role"] == "user"]
        assert said == ["first", "more"]


async def test_a_task_that_cannot_be_continued_in_the_background_is_logged_and_can_be_resumed(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate, entered = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        """Take a while."""
        entered.set()
        await gate.wait()
        return "slow"

    till = Till()
    till.tools = (slow,)  # type: ignore[assignment]
    async with segue.open(database) as app:
        register(app, till, [call_tool(("slow", {}))])
        task_id = (await app.start("first", session_id="s", agent="a")).task_id
        await entered.wait()
        pausing = asyncio.create_task(app.pause(task_id))

        async def asked() -> bool:
            return (await app._runner.tasks.get(task_id)).requested == "pause"

        await until(asked)
        await app.tasks.accept(Request("and cheap", session_id="s", agent="a", steer=True))
        app.agents.forget("a")
        gate.set()
        await pausing

        async def logged() -> bool:
            return f"Task {task_id} was not continued, and can be resumed: There is no agent" in caplog.text

        await until(logged)
        register(app, till, [answer("both")])
        assert (await app.resume(task_id))["answer"] == "both"


class _Damaging(Observer):
    """Damages the task that begins with what came too late for another one, as it is stored."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def stored(self, task: Task, event: Event) -> None:
        if isinstance(event, NotesMoved):
            self.put_rating("'x'", event.next_task_id)

    def put_rating(self, value: str, task_id: str) -> None:
        with closing(sqlite3.connect(self._file)) as connection, connection:
            connection.execute(f"UPDATE tasks SET rating = {value} WHERE task_id = '{task_id}'")


async def test_a_next_task_that_cannot_be_begun_is_logged_and_can_be_resumed(
    database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with segue.open(database) as app:
        app.tasks.observe(damaging := _Damaging(database))

        def decide(_: Any) -> str:
            for task_id in [*app._runner._runs]:
                app._runner._pause_run(task_id)  # before the answer is written
            return answer("one")

        app.register(Agent(agent_id="a", model=ScriptedChatModel([decide, answer("two")]), mode="react"))
        row = await app.start("first", session_id="s", agent="a")
        async for _ in app.follow(row.task_id):
            pass
        accepted = await app.tasks.accept(Request("more", session_id="s", agent="a", steer=True))
        async for _ in app.follow(accepted.task_id):
            pass
        later, earlier = await app.tasks.list()
        assert (earlier.result["answer"], later.message) == ("one", "more")

        async def logged() -> bool:
            return f"Task {later.task_id} was not begun, and can be resumed:" in caplog.text

        await until(logged)
        damaging.put_rating("NULL", later.task_id)
        assert (await app.resume(later.task_id))["answer"] == "two"


def _copied(file: Path) -> Path:
    """A database as it is now, with its log."""
    copy = file.with_name("killed.db")
    for end in ("", "-wal"):
        shutil.copy(f"{file}{end}", f"{copy}{end}")
    return copy


async def test_steering_a_session_without_a_task_is_an_ordinary_message(database: Path) -> None:
    async with segue.open(database) as app:
        register(app, Till(), [answer("one"), answer("two")])
        await app.ask("first", session_id="s", agent="a", steer=True)
        assert (await app.ask("second", session_id="s", agent="a", steer=True))["answer"] == "two"
        assert len(await app.tasks.list()) == 2


async def test_what_was_added_to_a_cancelled_task_stays_in_the_history(database: Path) -> None:
    till = Till()
    async with segue.open(database) as app:
        register(app, till, [call_tool(("pay", {"amount": 1})), call_tool(("pay", {"amount": 2}))])
        result = await app.ask("go", session_id="s", agent="a")
        with pytest.raises(TaskError, match="is waiting for a person"):
            await app.ask("more", session_id="s", agent="a", steer=True)
        asked = await app.answer(result["task_id"], "approve")
        assert (asked["status"], till.paid) == ("waiting", [1])
        await app.cancel(result["task_id"])
        roles = [m["role"] for m in await app.history("s")]
        assert roles == ["user", "assistant", "tool", "assistant"]


async def test_the_offline_planner_takes_an_edited_call_for_the_one_it_asked_for(database: Path) -> None:
    paid: list[int] = []

    @tool(needs_approval=True, keywords=["pay"])
    def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return f"paid {amount}"

    async with segue.open(database, agents=[Agent(agent_id="till", tools=(pay,), model="offline")]) as app:
        result = await app.ask("pay 30", agent="till")
        edited = {"verdicts": [{"index": 0, "verdict": "edit", "arguments": {"amount": 31}}]}
        done = await app.answer(result["task_id"], edited)
    assert (done["status"], paid) == ("done", [31])
