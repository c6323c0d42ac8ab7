"""Pause, cancel, steer and queue, from this opening of the database and from another, and what bounds a reply."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent, Budget
from segue.core.errors import ModelUnreachable, TaskError, TaskUnfinished, ThreadBusy
from segue.core.events import Event
from tests.fakes import ScriptedChatModel, answer, call_tool, plan_json
from tests.loopback import Endless, Gate, LoopbackServer, Text
from tests.loopback_wire import Dropped, Wire
from tests.polling import SECONDS, until


@pytest.fixture
async def other(database: Path, app: App) -> AsyncIterator[App]:
    """Another opening of the same database, as another process has it."""
    async with segue.open(database) as opened:
        yield opened


class Counter:
    """A tool whose effects can be counted, and that can be held up."""

    def __init__(self) -> None:
        self.effects: list[int] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def add(self, number: int) -> int:
        """Add a number to the list."""
        if not self.gate.is_set():
            self.entered.set()
        await self.gate.wait()
        self.effects.append(number)
        return len(self.effects)


class Drip:
    """A reply that never ends; `left` is set when the client is seen to be gone."""

    def __init__(self) -> None:
        self.left = threading.Event()

    def play(self, wire: Wire) -> None:
        wire.begin()
        try:
            while True:
                wire.delta({"content": "word "})
                time.sleep(0.01)
        except OSError:
            self.left.set()
            raise


def agent_of(script: list[Any], **fields: Any) -> Agent:
    return Agent(**{"agent_id": "a", "model": ScriptedChatModel(script), "mode": "react", **fields})


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


async def status(app: App, task_id: str) -> str:
    return str((await app.trace(task_id)).task.status)


def queued(database: Path) -> int:
    """How many messages wait for a session."""
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return int(connection.execute("SELECT count(*) FROM lease_queue").fetchone()[0])


async def held_up(app: App, script: list[Any]) -> tuple[str, Counter]:
    """A task that stands inside its first tool call."""
    counter = Counter()
    app.register(agent_of(script, tools=(counter.add,)))
    row = await app.start("go", session_id="s", agent="a")
    await counter.entered.wait()
    return row.task_id, counter


BATCH = call_tool(("add", {"number": 1}), ("add", {"number": 2}))


async def test_pausing_is_seen_at_once_and_taken_between_two_calls(app: App, other: App) -> None:
    task_id, counter = await held_up(app, [BATCH, answer("both")])
    await other.pause(task_id)
    assert await status(app, task_id) == "pausing"
    counter.gate.set()  # the very next boundary takes it, however soon that comes
    assert types([event async for event in app.follow(task_id)])[-1] == "paused"
    assert counter.effects == [1]
    task = (await other.trace(task_id)).task
    assert (task.status, task.requested) == ("paused", "pause")
    result = await app.resume(task_id)
    assert (result["answer"], result["status"], counter.effects) == ("both", "done", [1, 2])
    assert (await app.trace(task_id)).task.requested is None


async def test_only_what_runs_can_be_paused(app: App) -> None:
    app.register(agent_of([answer("done")]))
    result = await app.ask("go", session_id="s", agent="a")
    with pytest.raises(TaskError, match="is done: only a running task"):
        await app.pause(result["task_id"])


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_cancelling_closes_the_connection_and_keeps_what_was_written(
    app: App, other: App, elsewhere: bool
) -> None:
    drip = Drip()
    async with LoopbackServer([drip, Text("next")]) as server:
        agent = Agent(agent_id="a", model="openai:x", base_url=server.base_url, api_key="k", mode="direct")
        app.register(agent)
        row = await app.start("tell me a long story", session_id="s", agent="a")
        async for event in app.follow(row.task_id):
            if event.type == "token":
                break
        await (other if elsewhere else app).cancel(row.task_id)
        await until(drip.left.is_set)
        assert await status(other, row.task_id) == "cancelled"
        user, written = await app.history("s")
        assert user["content"] == "tell me a long story"
        assert written["role"] == "assistant"
        assert written["content"].startswith("word ") and written["content"].endswith("(The answer was interrupted.)")
        events = (await app.trace(row.task_id)).events
        assert [event.type for event in events][-2:] == ["state_changed", "cancelled"]
        assert events[-1].data["partial"].startswith("word ")
        assert (await app.ask("go on", session_id="s", agent="a"))["answer"] == "next"
        assert [m["role"] for m in await app.history("s")] == ["user", "assistant", "user", "assistant"]
    with pytest.raises(TaskError, match="is cancelled: there is nothing to cancel"):
        await app.cancel(row.task_id)


async def test_what_a_cancelled_task_did_stays_in_the_history(app: App) -> None:
    counter = Counter()
    seen: list[str] = []

    def hold(_: list[Any]) -> str:
        counter.gate.clear()
        return call_tool(("add", {"number": 2}))

    def look(messages: list[Any]) -> str:
        seen.extend(str(message.content) for message in messages)
        return answer("fresh")

    counter.gate.set()
    app.register(agent_of([call_tool(("add", {"number": 1})), hold, look], tools=(counter.add,)))
    row = await app.start("go", session_id="s", agent="a")
    await counter.entered.wait()
    assert counter.effects == [1]
    await app.cancel(row.task_id)
    task = (await app.trace(row.task_id)).task
    assert task.result["unknown_outcomes"] == [{"name": "add", "arguments": {"number": 2}}]
    assert [(entry["action"], entry["result"].get("success")) for entry in task.result["history"]] == [
        ("add", 1),
        ("add", None),
    ]
    assert task.result["usage"]["calls"] == 2 and task.result["reasoning"]["tools_used"] == ["add"]
    assert (await app.tasks.usage("a")).calls == 2
    history = await app.history("s")
    assert [m["role"] for m in history] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
    assert history[2]["content"] == "1" and "unknown_outcome" in history[4]["content"]
    assert (await app.ask("again", session_id="s", agent="a"))["answer"] == "fresh"
    assert "unknown_outcome" in " ".join(seen)


async def test_a_failed_task_makes_room_for_the_next_message(app: App) -> None:
    counter = Counter()
    counter.gate.set()
    script = [call_tool(("add", {"number": 1})), ModelUnreachable("down"), answer("up")]
    app.register(agent_of(script, tools=(counter.add,)))
    with pytest.raises(ModelUnreachable):
        await app.ask("go", session_id="s", agent="a")
    failed = (await app.tasks.list())[0].task_id
    assert (await app.ask("again", session_id="s", agent="a"))["answer"] == "up"
    roles = [m["role"] for m in await app.history("s")]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    with pytest.raises(TaskError, match="has continued with task"):
        await app.resume(failed)


async def test_a_paused_task_is_cancelled_and_the_queue_moves_on(app: App, other: App, database: Path) -> None:
    task_id, counter = await held_up(app, [BATCH])
    other.register(agent_of([answer("first"), answer("second")]))
    waiting = []
    for place, text in enumerate(("first", "second"), start=1):
        waiting.append(asyncio.create_task(other.ask(text, session_id="s", agent="a", wait=SECONDS)))
        await until(lambda: queued(database) == place)  # noqa: B023
    with pytest.raises(ThreadBusy):
        await app.ask("push in", session_id="s", agent="a")
    await app.cancel(task_id)
    counter.gate.set()
    assert [(await task)["answer"] for task in waiting] == ["first", "second"]
    users = [m["content"] for m in await app.history("s") if m["role"] == "user"]
    assert users == ["go", "first", "second"]


async def test_a_cancel_that_its_process_did_not_live_to_see_is_carried_out(app: App, database: Path) -> None:
    task_id, counter = await held_up(app, [call_tool(("add", {"number": 1})), answer("fresh")])
    await app.pause(task_id)
    counter.gate.set()
    assert [event async for event in app.follow(task_id)]
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE tasks SET status = 'running', requested = 'cancel'")
    assert await app.resumable() == []
    assert (await app.ask("again", session_id="s", agent="a"))["answer"] == "fresh"
    assert await status(app, task_id) == "cancelled"
    assert [m["role"] for m in await app.history("s")][:3] == ["user", "assistant", "tool"]


async def test_waiting_in_line_ends_at_its_time_and_leaves_no_place(app: App, other: App) -> None:
    task_id, counter = await held_up(app, [BATCH, answer("both")])
    with pytest.raises(ThreadBusy):
        await other.ask("later", session_id="s", wait=0.3)
    counter.gate.set()
    async for _ in app.follow(task_id):
        pass
    other.register(agent_of([answer("now")]))
    assert (await other.ask("later", session_id="s", agent="a"))["answer"] == "now"


async def test_closing_pauses_without_a_wish_and_a_wish_is_kept(database: Path) -> None:
    async with segue.open(database) as first:
        task_id, counter = await held_up(first, [BATCH])
        asyncio.get_running_loop().call_later(0.1, counter.gate.set)
    async with segue.open(database) as second:
        (row,) = await second.resumable()
        assert (row.task_id, row.status, row.requested, row.interrupted) == (
            task_id,
            "paused",
            None,
            False,
        )


async def test_a_task_in_another_process_is_followed_by_its_durable_events(app: App, other: App) -> None:
    task_id, counter = await held_up(app, [BATCH, answer("both")])
    asyncio.get_running_loop().call_later(0.3, counter.gate.set)
    events = [event async for event in other.follow(task_id)]
    assert types(events)[-2:] == ["task_complete", "state_changed"]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_a_new_message_to_a_paused_task_is_refused_with_the_choices(app: App) -> None:
    task_id, counter = await held_up(app, [BATCH])
    await app.pause(task_id)
    counter.gate.set()
    async for _ in app.follow(task_id):
        pass
    with pytest.raises(TaskUnfinished, match="resume, steer or cancel"):
        await app.ask("more", session_id="s", agent="a")
    assert len(await app.tasks.list()) == 1


async def test_a_task_that_somebody_is_about_to_resume_can_be_cancelled(app: App) -> None:
    counter = Counter()
    app.register(agent_of([call_tool(("add", {"number": 1})), answer("ok")], tools=(counter.add,)))
    task_id = (await app.start("count", session_id="s", agent="a")).task_id
    await counter.entered.wait()
    await app.pause(task_id)
    counter.gate.set()
    async for _ in app.follow(task_id):
        pass
    async with app._runner.leased("s"):  # as a resume holds it before its task runs
        cancelling = asyncio.create_task(app.cancel(task_id))
        await asyncio.wait([cancelling], timeout=0.2)
    await cancelling
    assert (await app.task(task_id)).status == "cancelled"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with segue.open(tmp_path / "segue.db") as opened:
        yield opened


class Quiet:
    """An endpoint that says nothing and closes the connection on `go`; `asked` is set when it is called."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def play(self, wire: Wire) -> None:
        self.asked.set()
        wire.wait(self.go.is_set, SECONDS)
        raise Dropped


def agent_at(server: LoopbackServer, **fields: Any) -> Agent:
    return Agent(agent_id="a", model="openai:x", base_url=server.base_url, api_key="k", **fields)


@pytest.mark.parametrize(("budget", "most"), [(Budget(reply_chars=100), 300), (Budget(seconds=3), 2000)])
async def test_a_reply_without_an_end_is_left_and_said_to_be_cut(app: App, budget: Budget, most: int) -> None:
    drip = Drip()
    async with LoopbackServer([drip]) as server:
        app.register(agent_at(server, mode="direct", budget=budget))
        result = await app.ask("tell me a long story", agent="a")
        await until(drip.left.is_set)
    assert result["success"] and result["answer"].startswith("word ")
    assert len(result["answer"]) < most and "word" not in result["answer"][-10:]


ARGUMENTS = [{"index": 0, "id": "c", "function": {"name": "add", "arguments": "x" * 50}}]
ENDLESS = {
    "arguments": Endless.delta(tool_calls=ARGUMENTS),
    "reasoning": Endless.delta(reasoning_content="hm " * 20),
    "refusal": Endless.delta(refusal="no " * 20),
    "empty deltas": Endless.delta(content=""),
    "no choices": Endless({"choices": []}),
}


async def ask_endless(app: App, name: str, budget: Budget) -> dict[str, Any]:
    """What comes of a task whose first reply has no end and whose second is an answer."""
    endless = replace(ENDLESS[name], left=threading.Event())
    async with LoopbackServer([endless, Text(answer("short"))]) as server, asyncio.timeout(60):
        app.register(agent_at(server, mode="react", budget=budget))
        result = await app.ask("go", agent="a")
        await until(endless.left.is_set)
    return result


@pytest.mark.parametrize("name", ["arguments", "reasoning", "refusal"])
async def test_all_characters_of_a_reply_are_counted(app: App, name: str) -> None:
    result = await ask_endless(app, name, Budget(reply_chars=400, reasoning_chars=400))
    assert result["answer"] == "short"


@pytest.mark.parametrize("name", ENDLESS)
async def test_the_time_limit_holds_for_replies_without_text(app: App, name: str) -> None:
    result = await ask_endless(app, name, Budget(seconds=0.75, reply_chars=10**8, reasoning_chars=10**8))
    assert result["error"] == "the time limit of 0.75 seconds was reached"


async def test_a_decision_without_an_end_is_asked_for_again(app: App) -> None:
    async with LoopbackServer([Drip(), Text(answer("short"))]) as server:
        app.register(agent_at(server, mode="react", budget=Budget(reply_chars=400)))
        result = await app.ask("go", agent="a")
        errors = [e.data["message"] for e in await app.events(result["task_id"]) if e.type == "error"]
    assert result["answer"] == "short"
    assert errors == ["The reply was truncated at its length limit: write a shorter one."]


@pytest.mark.parametrize("mode", ["direct", "react", "plan"])
async def test_where_a_pause_is_wanted_no_further_attempt_is_begun(app: App, mode: str) -> None:
    quiet = Quiet()
    async with LoopbackServer([quiet, *[Text(answer("late"))] * 4]) as server:
        app.register(agent_at(server, mode=mode))
        row = await app.start("go", session_id="s", agent="a")
        await until(quiet.asked.is_set)
        await app.pause(row.task_id)
        quiet.go.set()
        assert types([event async for event in app.follow(row.task_id)])[-1] == "paused"
        assert len(server.requests) == 1
        assert await status(app, row.task_id) == "paused"
        result = await app.resume(row.task_id)
    assert result["status"] == "done" and "late" in result["answer"]


# Thought and answer appear while the endpoint is still writing: it goes on only when the first delta was seen.


PLAN = plan_json("go", [{"action": "none", "description": "answer"}])
ENVELOPE = answer("an answer in two halves", thought="a thought in two halves")
HALF = ENVELOPE.index("two halves", ENVELOPE.index("answer in"))
THOUGHT = ENVELOPE.index("in two halves")


@pytest.fixture
async def live_app(tmp_path: Path) -> AsyncIterator[App]:
    async with segue.open(tmp_path / "live.db") as opened:
        yield opened


CASES: dict[str, tuple[str, str, list[Any], str, str, str]] = {
    "json thought": ("json", "react", [], ENVELOPE[:THOUGHT], ENVELOPE[THOUGHT:], "thinking"),
    "json answer": ("json", "react", [], ENVELOPE[:HALF], ENVELOPE[HALF:], "token"),
    "native answer": ("native", "react", [], "an answer ", "in two halves", "token"),
    "direct answer": ("json", "direct", [], "an answer ", "in two halves", "token"),
    "plan's answer": ("json", "plan", [Text(PLAN)], "an answer ", "in two halves", "token"),
    "json, two graphs deep": ("json", "plan_react", [Text(PLAN)], ENVELOPE[:HALF], ENVELOPE[HALF:], "token"),
    "native, two graphs deep": ("native", "plan_react", [Text(PLAN)], "an answer ", "in two halves", "token"),
}


async def test_who_follows_late_gets_the_answer_from_its_beginning(live_app: App) -> None:
    go = asyncio.Event()
    async with LoopbackServer([Gate("an answer ", "in two halves", go)]) as server:
        live_app.register(Agent(agent_id="a", model="openai:m", base_url=server.base_url))
        task_id = (await live_app.start("go", agent="a", mode="direct")).task_id
        async with asyncio.timeout(60):
            async for event in live_app.follow(task_id):
                if event.type == "token":
                    break
            late, without = [live_app.follow(task_id, so_far=so_far) for so_far in (True, False)]
            heard: list[str] = []
            async for event in late:
                if event.type == "token":
                    heard.append(event.content)
                    go.set()
            assert "".join(heard) == "an answer in two halves"
            assert not [event async for event in without if event.type == "token"], "it is over, the answer is an event"


@pytest.mark.parametrize("case", CASES)
async def test_the_first_half_is_seen_before_the_second_is_sent(live_app: App, case: str) -> None:
    protocol, mode, before, first, rest, kind = CASES[case]
    seen = asyncio.Event()
    async with LoopbackServer([*before, Gate(first, rest, seen)]) as server:
        live_app.register(Agent(agent_id="a", model="openai:m", base_url=server.base_url, protocol=protocol))
        said = ""
        async with asyncio.timeout(60):
            async for event in live_app.chat("go", agent="a", mode=mode):
                if event.type == kind and "━" not in event.content:
                    said += event.content
                    seen.set()
        server.assert_spent()
    assert seen.is_set()
    assert "in two halves" in said
    assert (await live_app.tasks.list())[0].status == "done"
