"""Damaged rows: lists go on, a sentence says what to do, and afterwards the session goes on."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from segue.checkpoints.schema import refuse_damaged
from segue.checkpoints.sqlite.database import SqliteConnection, check_rows
from segue.core.errors import DamagedCheckpoint, DamagedRow, DamagedSession, SegueError, UnknownThread, UnreadableState
from segue.core.events import Steered
from segue.core.json import Public
from segue.core.records import NewTask, Session, Task, TaskTrace, Thread

from .damage import (
    ANOTHER,
    ANSWER,
    BLOB,
    CUT_OFF,
    LABELS,
    NO_TEXT,
    NULL,
    OUTER,
    Work,
    copied,
    damage,
    garble,
    rows,
    stored,
)

Row = dict[str, Any]
NEWEST = OUTER.replace("WHERE", "WHERE thread_id = 's' AND")
ROWS = ("tasks", "events", "calls", "checkpoints", "writes")


@dataclass(frozen=True)
class Sound:
    """A database before it is damaged: session s has a paused task that was steered, session u one that is done."""

    path: Path
    paused: str
    tasks: Sequence[Task]
    threads: Sequence[Thread]
    trace: TaskTrace

    def copy(self, folder: Path) -> Path:
        return copied(self.path, folder)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return asyncio.run(_written(tmp_path_factory.mktemp("sound") / "segue.db"))


async def _written(path: Path) -> Sound:
    work = Work()
    async with work.opened(path) as app:
        await app.ask("do it", session_id="u", agent="a")
    work.effects.clear()
    paused = await work.pause(path)
    async with work.opened(path) as app:
        row = await app.task(paused)
        await app._runner.add_note(row, "and gently", Steered(task_id=paused, message="and gently"))
        return Sound(path, paused, await app.tasks.list(), await app.threads(), await app.trace(paused))


def left(row: Public, *names: str) -> Row:
    return {name: value for name, value in row.json().items() if name not in names}


async def finish(path: Path, task_id: str) -> None:
    """Go on with the paused task: its answer is right, and no effect comes twice."""
    work = Work(["one", "two"])
    async with work.opened(path) as app:
        assert (await app.resume(task_id))["answer"] == ANSWER
        assert work.effects == [*LABELS]
    await go_on(path)


async def go_on(path: Path) -> None:
    """The session takes another message, its events are numbered without a gap, and it can be exported and imported."""
    async with Work().opened(path) as app:
        assert (await app.ask("more", session_id="s", agent="a"))["answer"] == ANSWER
        for task in await app.tasks.list(session_id="s"):
            numbers = [event.seq for event in (await app.trace(task.task_id)).events]
            assert numbers == list(range(1, len(numbers) + 1))
        await app.sessions.import_(json.loads(json.dumps(await app.sessions.export("s"))), session_id="again")
    assert check_rows(path) == {}


TASK = [
    *((column, NULL) for column in ("task_id", "thread_id", "user_id", "mode", "model")),
    *((column, BLOB) for column in ("agent_id", "error", "requested", "copy_of")),
    *((column, NO_TEXT) for column in ("message", "created_at")),
    *((column, CUT_OFF) for column in ("status", "result", "answer", "updated_at")),
    *((column, ANOTHER) for column in ("notes", "rating")),
    *((column, CUT_OFF) for column in ("attachments", "client_tools", "reply_options", "origin")),
]
NEEDED = ("task_id", "agent_id", "mode", "model", "status", "message")
"""What a task cannot go on without."""


@pytest.mark.parametrize(("column", "value"), TASK, ids=[f"{column}={value}" for column, value in TASK])
async def test_a_damaged_task_stops_no_list_and_its_session_goes_on(
    sound: Sound, tmp_path: Path, column: str, value: str
) -> None:
    path = sound.copy(tmp_path)
    damage(path, f"UPDATE tasks SET {column} = {value} WHERE task_id = '{sound.paused}'")
    async with Work().opened(path) as app:
        shown, other = await app.tasks.list()
        assert (other, shown.status) == (sound.tasks[1], "error")
        lost = "session_id" if column == "thread_id" else column
        known = left(sound.tasks[0], lost, "status", "error")
        assert known.items() <= left(shown, lost).items()
        where = "`segue doctor` says" if column == "thread_id" else "segue recover s repairs it"
        assert f"{column} " in shown.error
        assert where in shown.error
        assert [thread.turns for thread in await app.threads()] == [1, 1]
        assert sound.threads[1] in await app.threads()
        assert [(row.status, row.interrupted) for row in await app.resumable()] == [("error", True)]
        if column not in ("task_id", "thread_id"):
            assert await app.task(sound.paused) == shown
            for stopped in (app.trace(sound.paused), app.resume(sound.paused), app.cancel(sound.paused)):
                with pytest.raises(DamagedRow, match="segue recover s repairs it"):
                    await stopped
            with pytest.raises(DamagedRow):
                await app.ask("more", session_id="s", agent="a")
            with pytest.raises(DamagedRow):
                await app.sessions.export("s")
        assert (await app.ask("more", session_id="u", agent="a"))["answer"] == ANSWER
        ((session, found),) = check_rows(path).items()
        assert (session, [*found[0].faults]) == ("s", [column])
        back = await app.sessions.recover("s")
        assert sound.paused in back.repaired[0] and column in back.repaired[0]
        task = await app.task(sound.paused)
        lost = column in NEEDED
        assert task.status == ("error" if lost else "paused")
        kept = (column, "status", "error", "created_at", "updated_at")
        assert left(task, *kept) == left(sound.tasks[0], *kept)
        assert left(await app.sessions.recover("s"), "checkpoint_id", "created_at") == {
            "readable": True,
            "dropped": 0,
            "copy": "",
            "repaired": [],
        }
    assert set(check_rows(Path(back.copy))) == {"s"}
    await (go_on(path) if lost else finish(path, sound.paused))


EVENTS = [
    *(("event", value) for value in (BLOB, CUT_OFF, "'{}'", "json_set(event, '$.type', 'odd')")),
    ("event", "json_set(event, '$.data.arguments', NULL)"),
    ("event", "json_set(event, '$.timestamp', 1e99)"),
    *((column, BLOB) for column in ("task_id", "source", "thread_id")),
    *((column, NO_TEXT) for column in ("seq", "ordinal")),
]


@pytest.mark.parametrize(("column", "value"), EVENTS, ids=[f"{column}={value}" for column, value in EVENTS])
async def test_a_damaged_event_is_said_and_keeps_its_number(
    sound: Sound, tmp_path: Path, column: str, value: str
) -> None:
    path = sound.copy(tmp_path)
    seq = next(event.seq for event in sound.trace.events if event.type == "tool_result")
    damage(path, f"UPDATE events SET {column} = {value} WHERE task_id = '{sound.paused}' AND seq = {seq}")
    async with Work().opened(path) as app:
        assert (await app.tasks.list(), await app.threads()) == (sound.tasks, sound.threads)
        if column != "task_id":  # it is in no task's log any more
            with pytest.raises(SegueError, match=r"damaged.*`?segue (recover s|doctor)"):
                await app.trace(sound.paused)
        ((session, found),) = check_rows(path).items()
        assert (session, [*found[0].faults]) == ("s", [column])
        back = await app.sessions.recover("s")
        assert back.repaired == [f"Unreadable events of task '{sound.paused}', now marked as such: {seq}."]
        events = (await app.trace(sound.paused)).events
        said = events.pop(seq - 1)
        assert (said.type, "damaged" in said.data["message"]) == ("error", True)
        assert events == [event for event in sound.trace.events if event.seq != seq]
    await finish(path, sound.paused)


CALLS = [
    *((column, NULL) for column in ("outcome", "thread_id", "scope", "name", "started_at", "orphaned")),
    *((column, NO_TEXT) for column in ("task_id", "idx", "fence")),
    *((column, CUT_OFF) for column in ("outcome", "state")),
    *((column, ANOTHER) for column in ("arguments", "finished_at")),
]


@pytest.mark.parametrize(("column", "value"), CALLS, ids=[f"{column}={value}" for column, value in CALLS])
async def test_a_damaged_call_is_said_and_not_made_again(sound: Sound, tmp_path: Path, column: str, value: str) -> None:
    path = sound.copy(tmp_path)
    damage(path, f"UPDATE calls SET {column} = {value} WHERE position = (SELECT max(position) FROM calls)")
    async with Work().opened(path) as app:
        assert (await app.tasks.list(), await app.threads()) == (sound.tasks, sound.threads)
        if column not in ("thread_id", "task_id"):
            for stopped in (app.trace(sound.paused), app.cancel(sound.paused)):
                with pytest.raises(DamagedRow, match=r"Call .* of session 's' is damaged .*: segue recover s repairs"):
                    await stopped
        ((session, found),) = check_rows(path).items()
        assert (session, [*found[0].faults]) == ("s", [column])
        back = await app.sessions.recover("s")
        (sentence,) = back.repaired
        assert sentence.startswith("Call ") and f" of task '{sound.paused}': damaged fields: {column}" in sentence
        *_, call = (await app.trace(sound.paused)).calls
        assert call.state == "done"
        assert ("unknown_outcome" in call.outcome) == (column == "outcome")
    if column not in ("name", "arguments"):
        await finish(path, sound.paused)


async def test_repairs_are_told_in_the_language_that_was_asked_for(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(path, "UPDATE calls SET outcome = '?' WHERE position = (SELECT max(position) FROM calls)")
    async with Work().opened(path) as app:
        (chinese,) = (await app.sessions.recover("s", language="zh")).repaired
    assert chinese.startswith(f"任务“{sound.paused}”的调用 ") and chinese.endswith("；它算作已执行，结果不明。")


async def test_a_call_whose_record_was_damaged_is_not_made_again(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(
        path,
        "UPDATE calls SET outcome = '?', state = '?' WHERE position = (SELECT max(position) FROM calls)",
        "UPDATE checkpoints SET checkpoint = x'00' WHERE thread_id = 's' AND checkpoint_ns != '' AND checkpoint_id > "
        "(SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = 's' AND checkpoint_ns != '')",
    )
    work = Work(["one", "two"])
    async with work.opened(path) as app:
        assert "it counts as run, with an unknown outcome" in (await app.sessions.recover("s")).repaired[-1]
        *_, call = (await app.trace(sound.paused)).calls
        assert (call.state, call.outcome["unknown_outcome"]) == ("done", True)
        await app.resume(sound.paused)
        assert work.effects.count("two") == 1


@pytest.mark.parametrize("tasks", ["UPDATE tasks SET created_at = NULL", "DELETE FROM tasks"])
async def test_a_call_whose_task_nothing_tells_is_given_one(sound: Sound, tmp_path: Path, tasks: str) -> None:
    path = sound.copy(tmp_path)
    damage(path, f"{tasks} WHERE thread_id = 's'", "DELETE FROM events WHERE thread_id = 's'")
    damage(path, "UPDATE calls SET task_id = NULL WHERE thread_id = 's'")
    async with Work().opened(path) as app:
        assert await app.sessions.recover("s")
    assert check_rows(path) == {}


async def test_a_checkpoint_and_rows_that_are_damaged_together_are_recovered_together(
    sound: Sound, tmp_path: Path
) -> None:
    path = sound.copy(tmp_path)
    garble(path, *rows(path, NEWEST)[0])
    damage(
        path,
        f"UPDATE tasks SET notes = '{{' WHERE task_id = '{sound.paused}'",
        f"UPDATE events SET seq = 'x' WHERE task_id = '{sound.paused}' AND seq = 2",
    )
    async with Work().opened(path) as app:
        with pytest.raises(DamagedCheckpoint):
            await app.history("s")
        with pytest.raises(DamagedRow, match="segue recover s repairs it"):
            await app.rewind.fork("s", (await app.sessions.snapshots("s"))[-1].checkpoint_id, session_id="new")
        back = await app.sessions.recover("s")
        assert (back.dropped > 0, len(back.repaired)) == (True, 2)
        task = await app.task(sound.paused)
        assert (task.status, task.notes) == ("paused", [])
    await finish(path, sound.paused)


async def test_where_it_cannot_be_done_in_whole_nothing_is_changed(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    garble(path, *rows(path, NEWEST)[0])
    damage(path, "UPDATE tasks SET status = NULL WHERE thread_id = 's'")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TRIGGER t BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'no'); END")
    before = stored(path, *ROWS)
    async with Work().opened(path) as app:
        with pytest.raises(sqlite3.IntegrityError):
            await app.sessions.recover("s")
    assert stored(path, *ROWS) == before


async def test_rows_are_replaced_also_where_no_checkpoint_can_be_read(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(
        path,
        "UPDATE checkpoints SET checkpoint = x'00' WHERE thread_id = 's'",
        "UPDATE tasks SET notes = '{' WHERE thread_id = 's'",
    )
    async with Work().opened(path) as app:
        back = await app.sessions.recover("s")
        assert (back.checkpoint_id, back.readable, back.dropped) == (None, False, 0)
        assert "damaged fields, now empty: notes." in back.repaired[0]
        assert "continue in a new session. None of them was deleted" in back.repaired[1]
        assert left(await app.task(sound.paused), "notes") == left(sound.tasks[0], "notes")


async def test_a_message_that_is_lost_is_to_be_sent_again(tmp_path: Path) -> None:
    path, work = tmp_path / "segue.db", Work()
    async with work.opened(path) as app:
        await app.ask("do it", session_id="u", agent="a")
        values: Any = {"agent_id": "a", "user_id": "default", "mode": "react", "model": "", "message": "do it"}
        await app._runner.tasks.create(NewTask(task_id="t1", session_id="s", **values))
        damage(path, "UPDATE tasks SET message = NULL WHERE task_id = 't1'")
        back = await app.sessions.recover("s")
        assert (back.checkpoint_id, back.readable, len(back.repaired)) == (None, True, 1)
        assert "send its message again" in back.repaired[0]
        trace = await app.trace("t1")
        assert (trace.task.status, trace.task.message) == ("error", "")
        assert [event.data for event in trace.events] == [{"old": "pending", "new": "error"}]
        assert (await app.ask("do it", session_id="s", agent="a"))["answer"] == ANSWER
        with pytest.raises(UnknownThread):
            await app.sessions.recover("nobody")


def test_a_fork_looks_at_the_rows_of_its_session_only(sound: Sound) -> None:
    looked: list[str] = []
    with closing(sqlite3.connect(sound.path, factory=SqliteConnection)) as connection:
        connection.row_factory = sqlite3.Row
        connection.set_trace_callback(looked.append)
        refuse_damaged(connection, "s")
        connection.set_trace_callback(None)
        plans = {look: connection.execute(f"EXPLAIN QUERY PLAN {look}").fetchall() for look in looked}
    assert len(plans) == 4
    assert [row["detail"] for plan in plans.values() for row in plan if row["detail"].startswith("SCAN")] == []


async def test_what_was_chosen_for_a_session_is_read_again_after_a_recovery(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    async with Work().opened(path) as app:
        await app._storage.sessions.put(Session("u", agent_id="a", model="offline"))
    damage(path, "UPDATE sessions SET metadata = '{', model = X'ff', is_pinned = 7")
    async with Work().opened(path) as app:
        with pytest.raises(DamagedSession, match=r"(?i)choice of agent and model of session .u. is damaged"):
            await app.ask("and then?", session_id="u", mode="direct")
        assert [*check_rows(path)] == ["u"]
        (said,) = (await app.sessions.recover("u")).repaired
        assert "Damaged settings of the session, reset to the default: model, metadata, is_pinned." in said
        chosen = await app.sessions.settings("u")
        assert chosen and (chosen.agent_id, chosen.model, chosen.metadata) == ("a", "", {})
    assert check_rows(path) == {}


async def test_rows_of_another_session_are_left_alone(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(path, "UPDATE tasks SET notes = '{'", "UPDATE calls SET outcome = '{'")
    async with Work().opened(path) as app:
        await app.sessions.recover("s")
    ((session, found),) = check_rows(path).items()
    assert (session, {row.table for row in found}) == ("u", {"tasks", "calls"})


async def test_a_task_that_nothing_tells_the_session_of_is_shown_all_the_same(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    damage(path, f"UPDATE tasks SET thread_id = NULL, task_id = NULL WHERE task_id = '{sound.paused}'")
    async with Work().opened(path) as app:
        assert [(row.session_id, row.status) for row in await app.tasks.list()] == [("", "error"), ("u", "done")]
        assert [row.session_id for row in await app.threads()] == ["", "u"]
    assert [*check_rows(path)] == [""]


CHECKPOINTS = [
    *((f"{column} = NULL", "loop") for column in ("type", "checkpoint", "metadata")),
    ("metadata = x'ff'", "loop"),
    ("metadata = '[]'", "loop"),
    ("metadata = '{\"parents\": 5}'", "loop"),
    ("checkpoint_id = 'odd'", "loop"),
    ("parent_checkpoint_id = 'gone'", "loop"),
    ("type = NULL, checkpoint = NULL", "update"),
]


@pytest.mark.parametrize(
    ("change", "source"), CHECKPOINTS, ids=[f"{change}-{source}" for change, source in CHECKPOINTS]
)
async def test_a_damaged_snapshot_does_not_keep_the_others_from_being_listed(
    sound: Sound, tmp_path: Path, change: str, source: str
) -> None:
    path = sound.copy(tmp_path)
    async with Work().opened(path) as app:
        before = await app.sessions.snapshots("s")
        place = before[2].checkpoint_id
        damage(path, f"UPDATE checkpoints SET {change} WHERE checkpoint_id = '{place}'")
        if source == "update":
            damage(path, "UPDATE checkpoints SET metadata = json_set(CAST(metadata AS TEXT), '$.source', 'update')")
        found = await app.sessions.snapshots("s")
        assert len(found) == len(before)
        assert source == "update" or sum(snapshot not in before for snapshot in found) <= 2


@pytest.mark.parametrize("change", ["channel = NULL", "channel = x'00'", "type = NULL", "value = NULL", "value = 7"])
async def test_damaged_writes_are_no_riddle_to_snapshots_and_exports(sound: Sound, tmp_path: Path, change: str) -> None:
    path = sound.copy(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'writes'")
    damage(path, f"UPDATE writes SET {change} WHERE thread_id = 's'")
    async with Work().opened(path) as app:
        assert len(await app.sessions.snapshots("s")) > 3
        with pytest.raises(DamagedSession, match="segue recover s"):
            await app.sessions.export("s")


async def test_what_no_state_needs_any_more_keeps_only_an_unfinished_task_from_being_exported(
    sound: Sound, tmp_path: Path
) -> None:
    path = sound.copy(tmp_path)
    oldest = "(SELECT min(checkpoint_id) FROM writes WHERE thread_id = 's')"
    damage(
        path, f"UPDATE writes SET type = NULL, value = NULL WHERE checkpoint_id = {oldest} AND channel != 'messages'"
    )
    async with Work().opened(path) as app:
        with pytest.raises(
            UnreadableState, match=r"segue recover s\. Where that finds nothing, end the task or cancel"
        ):
            await app.sessions.export("s")
        assert left(await app.sessions.recover("s"), "checkpoint_id", "created_at") == {
            "readable": True,
            "dropped": 0,
            "copy": "",
            "repaired": [],
        }
        await app.cancel(sound.paused)
        document = json.loads(json.dumps(await app.sessions.export("s")))
        await app.sessions.import_(document, session_id="t")
        assert [said["content"] for said in await app.history("t")] == [
            said["content"] for said in await app.history("s")
        ]


async def test_a_recovered_session_can_be_exported_and_goes_on_elsewhere(sound: Sound, tmp_path: Path) -> None:
    path = sound.copy(tmp_path)
    async with Work().opened(path) as app:
        old = [row.checkpoint_id for row in await app.sessions.snapshots("s") if row.inside][-2]
        damage(path, f"UPDATE checkpoints SET checkpoint = x'00' WHERE checkpoint_id = '{old}'")
        with pytest.raises(DamagedCheckpoint):
            await app.resume(sound.paused)
        assert (await app.sessions.recover("s")).dropped == 1
        document = json.loads(json.dumps(await app.sessions.export("s")))
    work = Work(["one", "two"])
    async with work.opened(tmp_path / "elsewhere.db") as app:
        row = await app.sessions.import_(document, session_id="s")
        assert (await app.resume(row.task_id))["answer"] == ANSWER
    assert work.effects == [*LABELS]


def test_the_copies_of_a_database_are_whole(sound: Sound, tmp_path: Path) -> None:
    """What these tests damage is a copy: nothing of it may be left in a log beside the original."""
    shutil.copy(sound.path, tmp_path / "copy.db")
    assert stored(tmp_path / "copy.db", *ROWS) == stored(sound.path, *ROWS)
