"""Going back to the newest state that can be read: the answer is right all the same, and no effect comes twice."""

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

import segue
from segue.app import App
from segue.checkpoints.sqlite.database import open_database
from segue.checkpoints.sqlite.leases import Lease
from segue.checkpoints.sqlite.repair.recover import recover
from segue.checkpoints.sqlite.saver import FencedSqliteSaver
from segue.core.agents import Agent
from segue.core.errors import DamagedCheckpoint, NothingReadable, StaleOwner, ThreadBusy, UnknownThread
from segue.runtime.runner import thread_config
from segue.runtime.thread_state import state_at
from tests.fakes import ScriptedChatModel, answer, call_tool

LABELS = ("one", "two", "three")
ANSWER = "All of it: one, two, three."
OUTER = "SELECT type, checkpoint FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id DESC"
MINE = "thread_id = 's'"
INNER = "SELECT type, checkpoint FROM checkpoints WHERE checkpoint_ns != '' ORDER BY checkpoint_id DESC"


def decide(messages: Sequence[BaseMessage]) -> str:
    """Do what has no result yet, then answer."""
    seen = " ".join(str(message.content) for message in messages)
    left = [label for label in LABELS if f"did {label}" not in seen]
    return call_tool(("do", {"label": left[0]})) if left else answer(ANSWER)


@dataclass
class Work:
    """An agent whose tool's effects are counted."""

    effects: list[str] = field(default_factory=list)

    async def do(self, label: str) -> str:
        """Do something that must not be done twice."""
        self.effects.append(label)
        return f"did {label}"

    @asynccontextmanager
    async def opened(self, path: str | Path) -> AsyncIterator[App]:
        agent = Agent(agent_id="a", model=ScriptedChatModel(decide), mode="react", tools=[self.do])
        async with segue.open(path, agents=[agent]) as app:
            yield app

    async def finish(self, path: Path) -> str:
        async with self.opened(path) as app:
            return str((await app.ask("do it", session_id="s", agent="a"))["task_id"])

    async def pause(self, path: Path) -> str:
        """Leave a task that is paused after its second call."""
        async with self.opened(path) as app:
            row = await app.start("do it", session_id="s", agent="a")
            async for event in app.follow(row["task_id"]):
                if event.type == "tool_result" and len(self.effects) == 2 and event.data["result"] != {}:
                    await asyncio.gather(app.pause(row["task_id"]), return_exceptions=True)
            assert (self.effects, (await app.tasks())[0]["status"]) == (["one", "two"], "paused")
            return str(row["task_id"])


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def garble(path: Path, kind: str, value: bytes) -> None:
    """Change a byte in the middle of what is stored in a row, in the file itself."""
    whole = path.read_bytes()
    start = whole.find(kind.encode() + value)
    assert start > 0, "it does not lie in one piece"
    at = start + len(kind) + len(value) // 2
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])


def files(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


async def test_whatever_is_damaged_of_a_paused_task_its_answer_is_right_and_its_effects_are_single(
    tmp_path: Path,
) -> None:
    path, work = tmp_path / "segue.db", Work()
    task_id = await work.pause(path)
    stored = rows(path, "SELECT type, checkpoint FROM checkpoints")
    stored += rows(path, "SELECT type, value FROM writes WHERE length(value) > 150")
    for kind, value in stored:
        copy, rest = tmp_path / "copy.db", Work([*work.effects])
        shutil.copy(path, copy)
        garble(copy, kind, value)
        async with rest.opened(copy) as app:
            try:
                result = await app.resume(task_id)
            except DamagedCheckpoint:
                back = await app.recover("s")
                assert back["dropped"] > 0
                assert (await app.tasks())[0]["status"] in ("paused", "error")
                result = await app.resume(task_id)
            history = await app.history("s")
        assert (result["answer"], rest.effects) == (ANSWER, [*LABELS])
        assert [said["role"] for said in history] == ["user", *["assistant", "tool"] * 3, "assistant"]
        assert [said["content"] for said in history if said["role"] == "tool"] == [f"did {label}" for label in LABELS]
    assert len(stored) > 15


async def test_a_damaged_newest_checkpoint_is_said_then_made_again_from_the_writes_before_it(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    garble(path, *rows(path, OUTER)[0])
    async with work.opened(path) as app:
        with pytest.raises(DamagedCheckpoint, match=r"'s' is damaged .*: segue recover s goes back"):
            await app.history("s")
        back = await app.recover("s")
        assert (back["dropped"], (await app.history("s"))[-1]["content"]) == (1, ANSWER)
        assert (await app.tasks())[0]["status"] == "done"
        await app.ask("and again", session_id="s", agent="a")
        said = [said["content"] for said in await app.history("s") if said["role"] == "user"]
        assert said == ["do it", "and again"]
    async with work.opened(back["copy"]) as damaged:
        with pytest.raises(DamagedCheckpoint):
            await damaged.history("s")


async def test_damage_to_an_older_checkpoint_costs_no_message(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    async with work.opened(path) as app:
        for n in range(3):
            await app.ask(f"again {n}", session_id="s", agent="a")
        history = await app.history("s")
    old = rows(path, "SELECT type, checkpoint, checkpoint_id FROM checkpoints ORDER BY checkpoint_id")[4:7]
    for kind, value, _ in old:
        garble(path, kind, value)
    async with work.opened(path) as app:
        with pytest.raises(DamagedCheckpoint):
            await app.history("s")
        assert ((await app.recover("s"))["dropped"], (await app.recover("s"))["dropped"]) == (3, 0)
        assert await app.history("s") == history
        for _, _, checkpoint_id in old:
            with pytest.raises(DamagedCheckpoint):
                await app._runner.saver.aget_tuple(
                    {"configurable": {"thread_id": "s", "checkpoint_ns": "", "checkpoint_id": checkpoint_id}}
                )
        assert (await app.ask("and on", session_id="s", agent="a"))["answer"] == ANSWER


async def test_a_damaged_checkpoint_that_a_log_begins_in_takes_what_came_after_it_along(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    async with work.opened(path) as app:
        await app.ask("again", session_id="s", agent="a")
    with closing(sqlite3.connect(path)) as connection, connection:
        fifth = "SELECT checkpoint_id FROM checkpoints ORDER BY checkpoint_id LIMIT 1 OFFSET 4"
        without = "CAST(json_remove(CAST(metadata AS TEXT), '$.counters_since_delta_snapshot.messages') AS BLOB)"
        connection.execute(
            f"UPDATE checkpoints SET metadata = {without}, checkpoint = x'00' WHERE checkpoint_id IN ({fifth})"
        )
        (before,) = connection.execute(f"SELECT count(*) FROM checkpoints WHERE checkpoint_id < ({fifth})").fetchone()
    async with work.opened(path) as app:
        await app.recover("s")
        assert len(rows(path, OUTER)) in (before, before + 1)  # the fifth is made again where it can be


async def test_damage_within_a_subgraph_costs_only_the_steps_after_it(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    task_id = await work.pause(path)
    before, outer = len(rows(path, INNER)), rows(path, OUTER)
    garble(path, *rows(path, INNER)[0])
    async with work.opened(path) as app:
        assert (await app.recover("s"))["dropped"] == 1
        assert (len(rows(path, INNER)), rows(path, OUTER)) == (before - 1, outer)
        assert (await app.resume(task_id))["answer"] == ANSWER
        events = (await app.trace(task_id))["events"]
    assert work.effects == [*LABELS]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["data"]["checkpoint_id"] for event in events if event["type"] == "recovered"]


async def test_a_step_whose_writes_are_damaged_runs_again_and_its_calls_do_not(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    task_id = await work.finish(path)
    garble(
        path, *rows(path, "SELECT type, value FROM writes WHERE channel = 'messages' ORDER BY checkpoint_id DESC")[0]
    )
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tasks SET status = 'running', result = NULL")
    async with work.opened(path) as app:
        with pytest.raises(DamagedCheckpoint):
            await app.resume(task_id)
        await app.recover("s")
        calls = (await app.trace(task_id))["calls"]
        assert (await app.resume(task_id))["answer"] == ANSWER
        assert (await app.history("s"))[-1]["content"] == ANSWER
        again = (await app.trace(task_id))["calls"]
    assert [call["outcome"] for call in again] == [call["outcome"] for call in calls]
    assert work.effects == [*LABELS]


async def test_an_open_task_is_paused_and_its_log_says_why(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    task_id = await work.pause(path)
    garble(path, *rows(path, OUTER)[0])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE tasks SET status = 'running'")
    async with work.opened(path) as app:
        back = await app.recover("s")
        trace = await app.trace(task_id)
    assert trace["task"]["status"] == "paused"
    event, changed = trace["events"][-2:]
    assert event["data"] == {
        "checkpoint_id": back["checkpoint_id"],
        "reason": "its bytes have changed since they were stored",
    }
    assert changed["data"] == {"old": "running", "new": "paused"}


async def test_where_nothing_is_damaged_nothing_is_done(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    task_id = await work.pause(path)
    before = (
        rows(path, "SELECT * FROM events"),
        rows(path, "SELECT * FROM checkpoints"),
        rows(path, "SELECT * FROM calls"),
    )
    async with work.opened(path) as app:
        back = await app.recover("s")
        assert (back["dropped"], back["copy"]) == (0, "")
        assert (await app.resume(task_id))["answer"] == ANSWER
    events, checkpoints, calls = before
    assert rows(path, "SELECT * FROM events")[: len(events)] == events
    assert checkpoints and calls and files(tmp_path) == ["segue.db"]


async def test_where_nothing_can_be_read_nothing_is_deleted(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    for kind, value in rows(path, OUTER):
        garble(path, kind, value)
    tables = [f"SELECT * FROM {table} WHERE {MINE} ORDER BY 1, 2, 3" for table in ("checkpoints", "writes", "events")]
    before = [rows(path, table) for table in tables]
    async with work.opened(path) as app:
        with pytest.raises(NothingReadable, match=r"continue in a new session\. None of them was deleted"):
            await app.recover("s")
        assert (await app.ask("do it", session_id="new", agent="a"))["answer"] == ANSWER
    assert before == [rows(path, table) for table in tables]
    assert files(tmp_path) == ["segue.db"]


async def test_another_session_is_left_alone_and_an_unknown_one_is_said(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    async with work.opened(path) as app:
        await app.ask("do it", session_id="t", agent="a")
    others = rows(path, f"SELECT * FROM checkpoints WHERE NOT {MINE}")
    garble(path, *rows(path, f"SELECT type, checkpoint FROM checkpoints WHERE {MINE} ORDER BY checkpoint_id DESC")[0])
    async with work.opened(path) as app:
        assert (await app.recover("s"))["dropped"] == 1
        with pytest.raises(UnknownThread):
            await app.recover("nobody")
    assert rows(path, f"SELECT * FROM checkpoints WHERE NOT {MINE}") == others


async def test_who_does_not_hold_the_thread_changes_nothing(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    garble(path, *rows(path, OUTER)[0])
    before = rows(path, "SELECT * FROM checkpoints")

    async def readable(config: Any) -> None:
        """The saver's own reading is enough here."""

    async with await open_database(str(path)) as database, work.opened(path) as app:
        saver = FencedSqliteSaver(database)
        await Lease(database).acquire("s", "another machine:1:somebody")
        with pytest.raises(ThreadBusy):
            await app.recover("s")
        with pytest.raises(StaleOwner):
            await recover(database, saver, readable, "s")
    assert rows(path, "SELECT * FROM checkpoints") == before


async def test_an_in_memory_database_is_not_copied() -> None:
    work = Work()
    async with work.opened(":memory:") as app:
        await app.ask("do it", session_id="s", agent="a")
        with closing(sqlite3.connect(app._storage.database.path)) as connection, connection:
            last = "(SELECT max(checkpoint_id) FROM checkpoints)"
            connection.execute(f"UPDATE checkpoints SET checkpoint = x'00' WHERE checkpoint_id = {last}")
        back = await app.recover("s")
        assert (back["dropped"], back["copy"]) == (1, "")
        assert (await app.history("s"))[-1]["content"] == ANSWER


DAMAGES: dict[str, str] = {
    "cut off": "UPDATE checkpoints SET checkpoint = substr(checkpoint, 1, 40)",
    "empty": "UPDATE checkpoints SET checkpoint = x''",
    "gone": "UPDATE checkpoints SET checkpoint = NULL",
    "a number": "UPDATE checkpoints SET checkpoint = 5",
    "of a kind unheard of": "UPDATE checkpoints SET type = 'pickle'",
    "of a kind that is no text": "UPDATE checkpoints SET type = CAST(x'ff41' AS TEXT)",
    "no checkpoint, and without a checksum": "UPDATE checkpoints SET type = 'json', checkpoint = '[1, 2]'",
    "metadata cut off": "UPDATE checkpoints SET metadata = substr(metadata, 1, 9)",
    "metadata of another kind": 'UPDATE checkpoints SET metadata = \'{"step": "one"}\'',
    "filed elsewhere": "UPDATE checkpoints SET checkpoint_id = replace(checkpoint_id, '-', '_')",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_every_way_to_read_a_damaged_checkpoint_says_so(tmp_path: Path, damage: str) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        last = "(SELECT max(checkpoint_id) FROM checkpoints)"
        connection.execute(f"{damage} WHERE checkpoint_id = {last}")
    async with work.opened(path) as app:
        saver = app._runner.saver
        reads: tuple[Callable[[], Any], ...] = (
            lambda: app.history("s"),
            lambda: saver.aget_tuple(thread_config("s")),
            lambda: _listed(saver),
        )
        for read in reads:
            with pytest.raises(DamagedCheckpoint):
                await read()
        assert (await app.recover("s"))["dropped"] == 1
        assert (await app.history("s"))[-1]["content"] == ANSWER


async def _listed(saver: FencedSqliteSaver) -> list[Any]:
    return [found async for found in saver.alist(thread_config("s"))]


async def test_a_checkpoint_that_is_missing_does_not_make_the_history_shorter(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        second = (
            "SELECT checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id LIMIT 1 OFFSET 1"
        )
        connection.execute(f"DELETE FROM checkpoints WHERE checkpoint_id IN ({second})")
    async with work.opened(path) as app:
        with pytest.raises(DamagedCheckpoint, match=r"builds on checkpoint .* which is missing"):
            await app.history("s")


async def test_what_was_stored_without_checksums_is_read_as_ever(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in ("checkpoints", "writes"):
            connection.execute(f"UPDATE {table} SET type = substr(type, 1, instr(type, '+') - 1)")
    async with work.opened(path) as app:
        assert (await app.history("s"))[-1]["content"] == ANSWER
        await app.ask("and again", session_id="s", agent="a")
        assert (await app.recover("s"))["dropped"] == 0


async def test_values_that_no_channel_takes_are_damage_too(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    await work.finish(path)
    async with work.opened(path) as app:
        kind, value = app._runner.saver.serde.dumps_typed([None])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE writes SET type = ?, value = ? WHERE channel = 'messages'", (kind, value))
        with pytest.raises(DamagedCheckpoint, match=r"its (messages|values)"):
            await state_at(app._runner.graph, thread_config("s"))
