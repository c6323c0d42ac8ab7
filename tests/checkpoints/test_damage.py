"""Damaged checkpoints: every read refuses them, and the session goes back to the newest state that can be read."""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from segue.checkpoints.damage import recover
from segue.checkpoints.leases import Lease
from segue.checkpoints.rows import WRITE_KEY, value_checksum
from segue.checkpoints.saver import FencedSaver
from segue.checkpoints.schema import refuse_damaged
from segue.checkpoints.sqlite.database import SqliteConnection, check_rows
from segue.core.errors import (
    DamagedCheckpoint,
    DamagedRow,
    DamagedSession,
    NothingReadable,
    SegueError,
    StaleOwner,
    ThreadBusy,
    UnknownThread,
    UnreadableState,
)
from segue.core.events import Steered
from segue.core.json import Public
from segue.core.records import NewTask, Session, Task, TaskTrace, Thread
from segue.runtime.run import state_at, thread_config

from .damage import (
    ANOTHER,
    ANSWER,
    BLOB,
    CUT_OFF,
    INNER,
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

Left = tuple[Path, str]
"""A database, and the task of its session s."""
MINE, OTHERS = "thread_id = 's'", "thread_id != 's'"
OUTERMOST = "SELECT * FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Left]:
    """A session that is done, and one that is paused after two of three calls."""
    done, paused = (tmp_path_factory.mktemp(name) / "segue.db" for name in ("done", "paused"))
    return {"done": (done, asyncio.run(Work().finish(done))), "paused": (paused, asyncio.run(Work().pause(paused)))}


@pytest.fixture
def done(written: dict[str, Left], tmp_path: Path) -> Left:
    return copied(written["done"][0], tmp_path), written["done"][1]


@pytest.fixture
def paused(written: dict[str, Left], tmp_path: Path) -> Left:
    return copied(written["paused"][0], tmp_path), written["paused"][1]


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def rest() -> Work:
    """What a process sees that resumes the paused task."""
    return Work(["one", "two"])


async def test_whatever_is_damaged_of_a_paused_task_its_answer_is_right_and_its_effects_are_single(
    paused: Left, tmp_path: Path
) -> None:
    path, task_id = paused
    stored = rows(path, "SELECT type, checkpoint FROM checkpoints")
    stored += rows(path, "SELECT type, value FROM writes WHERE length(value) > 150")
    for kind, value in stored:
        copy, work = tmp_path / "copy.db", rest()
        shutil.copy(path, copy)
        garble(copy, kind, value)
        async with work.opened(copy) as app:
            try:
                result = await app.resume(task_id)
            except DamagedCheckpoint:
                assert (await app.sessions.recover("s")).dropped > 0
                assert (await app.tasks.list())[0].status in ("paused", "error")
                result = await app.resume(task_id)
            history = await app.history("s")
        assert (result["answer"], work.effects) == (ANSWER, [*LABELS])
        assert [said["role"] for said in history] == ["user", *["assistant", "tool"] * 3, "assistant"]
        assert [said["content"] for said in history if said["role"] == "tool"] == [f"did {label}" for label in LABELS]
    assert len(stored) > 15


async def test_a_damaged_newest_checkpoint_is_said_then_made_again_from_the_writes_before_it(done: Left) -> None:
    path, _ = done
    async with Work().opened(path) as app:
        await app.ask("do it", session_id="t", agent="a")
    others = rows(path, f"SELECT * FROM checkpoints WHERE {OTHERS}")
    garble(path, *rows(path, OUTER.replace("WHERE", f"WHERE {MINE} AND"))[0])
    async with Work().opened(path) as app:
        with pytest.raises(DamagedCheckpoint, match=r"'s' is damaged .*: segue recover s goes back"):
            await app.history("s")
        back = await app.sessions.recover("s")
        assert (back.dropped, (await app.history("s"))[-1]["content"]) == (1, ANSWER)
        assert (await app.tasks.list(session_id="s"))[0].status == "done"
        await app.ask("and again", session_id="s", agent="a")
        said = [said["content"] for said in await app.history("s") if said["role"] == "user"]
        assert said == ["do it", "and again"]
        with pytest.raises(UnknownThread):
            await app.sessions.recover("nobody")
    assert rows(path, f"SELECT * FROM checkpoints WHERE {OTHERS}") == others
    async with Work().opened(back.copy) as damaged:
        with pytest.raises(DamagedCheckpoint):
            await damaged.history("s")


async def test_damage_to_an_older_checkpoint_costs_no_message(done: Left) -> None:
    path, _ = done
    async with Work().opened(path) as app:
        for n in range(3):
            await app.ask(f"again {n}", session_id="s", agent="a")
        history = await app.history("s")
    old = rows(path, f"SELECT type, checkpoint, checkpoint_id FROM ({OUTERMOST})")[4:7]
    for kind, value, _ in old:
        garble(path, kind, value)
    async with Work().opened(path) as app:
        with pytest.raises(DamagedCheckpoint):
            await app.history("s")
        assert ((await app.sessions.recover("s")).dropped, (await app.sessions.recover("s")).dropped) == (3, 0)
        assert await app.history("s") == history
        for _, _, checkpoint_id in old:
            with pytest.raises(DamagedCheckpoint):
                place = {"thread_id": "s", "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
                await app._runner.saver.aget_tuple({"configurable": place})
        assert (await app.ask("and on", session_id="s", agent="a"))["answer"] == ANSWER


async def test_a_damaged_checkpoint_that_a_log_begins_in_takes_what_came_after_it_along(done: Left) -> None:
    path, _ = done
    async with Work().opened(path) as app:
        await app.ask("again", session_id="s", agent="a")
    fifth = f"SELECT checkpoint_id FROM ({OUTERMOST}) LIMIT 1 OFFSET 4"
    ((before,),) = rows(path, f"SELECT count(*) FROM ({OUTERMOST}) WHERE checkpoint_id < ({fifth})")
    without = "CAST(json_remove(CAST(metadata AS TEXT), '$.counters_since_delta_snapshot.messages') AS BLOB)"
    change(path, f"UPDATE checkpoints SET metadata = {without}, checkpoint = x'00' WHERE checkpoint_id IN ({fifth})")
    async with Work().opened(path) as app:
        await app.sessions.recover("s")
        assert len(rows(path, OUTER)) in (before, before + 1)  # the fifth is made again where it can be


async def test_damage_within_a_subgraph_costs_only_the_steps_after_it(paused: Left) -> None:
    path, task_id = paused
    work, before, outer = rest(), len(rows(path, INNER)), rows(path, OUTER)
    garble(path, *rows(path, INNER)[0])
    async with work.opened(path) as app:
        assert (await app.sessions.recover("s")).dropped == 1  # nothing is left of the step that led to it
        assert (len(rows(path, INNER)), rows(path, OUTER)) == (before - 1, outer)
        assert (await app.resume(task_id))["answer"] == ANSWER
        events = (await app.trace(task_id)).events
    assert work.effects == [*LABELS]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.data["checkpoint_id"] for event in events if event.type == "recovered"]


async def test_a_step_whose_writes_are_damaged_runs_again_and_its_calls_do_not(done: Left) -> None:
    path, task_id = done
    said = """
        SELECT type, value FROM writes WHERE channel = 'messages' AND checkpoint_ns = '' ORDER BY checkpoint_id DESC
    """
    garble(path, *rows(path, said)[0])
    change(path, "UPDATE tasks SET status = 'running', result = NULL")
    work = Work()
    async with work.opened(path) as app:
        with pytest.raises(DamagedCheckpoint):
            await app.resume(task_id)
        await app.sessions.recover("s")
        calls = (await app.trace(task_id)).calls
        assert (await app.resume(task_id))["answer"] == ANSWER
        assert (await app.history("s"))[-1]["content"] == ANSWER
        again = (await app.trace(task_id)).calls
    assert [call.outcome for call in again] == [call.outcome for call in calls]
    assert work.effects == []


async def test_an_open_task_is_paused_and_its_log_says_why(paused: Left) -> None:
    path, task_id = paused
    garble(path, *rows(path, OUTER)[0])
    change(path, "UPDATE tasks SET status = 'running'")
    async with rest().opened(path) as app:
        back = await app.sessions.recover("s")
        trace = await app.trace(task_id)
    assert trace.task.status == "paused"
    event, changed = trace.events[-2:]
    reason = "its bytes have changed since they were stored"
    assert event.data == {"checkpoint_id": back.checkpoint_id, "reason": reason}
    assert changed.data == {"old": "running", "new": "paused"}


async def test_where_nothing_is_damaged_nothing_is_done(paused: Left) -> None:
    path, task_id = paused
    tables = ("events", "checkpoints", "calls", "tasks")
    before = [rows(path, f"SELECT * FROM {table}") for table in tables]
    async with rest().opened(path) as app:
        back = await app.sessions.recover("s")
        assert (back.dropped, back.copy) == (0, "")
        assert [rows(path, f"SELECT * FROM {table}") for table in tables] == before
        assert (await app.resume(task_id))["answer"] == ANSWER
    assert [file.name for file in path.parent.iterdir()] == ["segue.db"]


async def test_where_nothing_can_be_read_nothing_is_deleted(done: Left) -> None:
    path, _ = done
    for kind, value in rows(path, OUTER):
        garble(path, kind, value)
    tables = [f"SELECT * FROM {table} WHERE {MINE} ORDER BY 1, 2, 3" for table in ("checkpoints", "writes", "events")]
    before = [rows(path, table) for table in tables]
    async with Work().opened(path) as app:
        with pytest.raises(NothingReadable, match=r"continue in a new session\. None of them was deleted"):
            await app.sessions.recover("s")
        assert (await app.ask("do it", session_id="new", agent="a"))["answer"] == ANSWER
    assert before == [rows(path, table) for table in tables]
    assert [file.name for file in path.parent.iterdir()] == ["segue.db"]


async def test_who_does_not_hold_the_thread_changes_nothing(done: Left) -> None:
    path, _ = done
    garble(path, *rows(path, OUTER)[0])
    before = rows(path, "SELECT * FROM checkpoints")

    async def readable(config: Any) -> None:
        """The saver's own reading is enough here."""

    async def unneeded(at: float) -> str:
        return ""

    async with Work().opened(path) as app:
        database = app._storage.database
        await Lease(database).acquire("s", "another machine:1:somebody")
        with pytest.raises(ThreadBusy):
            await app.sessions.recover("s")
        with pytest.raises(StaleOwner):
            await recover(database, FencedSaver(database), readable, "s", "en", unneeded)
    assert rows(path, "SELECT * FROM checkpoints") == before


async def test_an_in_memory_database_is_not_copied() -> None:
    async with Work().opened(":memory:") as app:
        await app.ask("do it", session_id="s", agent="a")
        last = "(SELECT max(checkpoint_id) FROM checkpoints)"
        change(app._storage.database.path, f"UPDATE checkpoints SET checkpoint = x'00' WHERE checkpoint_id = {last}")
        back = await app.sessions.recover("s")
        assert (back.dropped, back.copy) == (1, "")
        assert (await app.history("s"))[-1]["content"] == ANSWER


DAMAGES: dict[str, str] = {
    "truncated": "checkpoint = substr(checkpoint, 1, 40)",
    "empty": "checkpoint = x''",
    "gone": "checkpoint = NULL",
    "a number": "checkpoint = 5",
    "of an unknown kind": "type = 'pickle'",
    "of a kind that is not text": "type = CAST(x'ff41' AS TEXT)",
    "no checkpoint, and without a checksum": "type = 'json', checkpoint = '[1, 2]'",
    "metadata truncated": "metadata = substr(metadata, 1, 9)",
    "metadata of another kind": 'metadata = \'{"step": "one"}\'',
    "filed elsewhere": "checkpoint_id = replace(checkpoint_id, '-', '_')",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_every_way_to_read_a_damaged_checkpoint_says_so(done: Left, damage: str) -> None:
    path, _ = done
    last = "(SELECT max(checkpoint_id) FROM checkpoints)"
    change(path, f"UPDATE checkpoints SET {damage} WHERE checkpoint_id = {last}")
    async with Work().opened(path) as app:
        saver = app._runner.saver
        reads: tuple[Callable[[], Any], ...] = (
            lambda: app.history("s"),
            lambda: saver.aget_tuple(thread_config("s")),
            lambda: _listed(saver),
        )
        for read in reads:
            with pytest.raises(DamagedCheckpoint):
                await read()
        assert (await app.sessions.recover("s")).dropped == 1
        assert (await app.history("s"))[-1]["content"] == ANSWER


async def _listed(saver: FencedSaver) -> list[Any]:
    return [found async for found in saver.alist(thread_config("s"))]


async def test_a_checkpoint_that_is_missing_does_not_make_the_history_shorter(done: Left) -> None:
    path, _ = done
    second = "SELECT checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id LIMIT 1 OFFSET 1"
    change(path, f"DELETE FROM checkpoints WHERE checkpoint_id IN ({second})")
    async with Work().opened(path) as app:
        with pytest.raises(DamagedCheckpoint, match=r"builds on checkpoint .* which is missing"):
            await app.history("s")


async def test_values_that_no_channel_takes_are_damage_too(done: Left) -> None:
    path, _ = done
    async with Work().opened(path) as app:
        kind, value = app._runner.saver.serde.dumps_typed([None])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.create_function("sealed", len(WRITE_KEY), lambda *key: value_checksum(key, kind, value))
            sealed = f"UPDATE writes SET type = ?, value = ?, checksum = sealed({', '.join(WRITE_KEY)})"
            connection.execute(f"{sealed} WHERE channel = 'messages'", (kind, value))
        with pytest.raises(DamagedCheckpoint, match=r"its (messages|values)"):
            await state_at(app._runner.graph, thread_config("s"))


# Damaged rows: lists go on, a sentence says what to do, and afterwards the session goes on.


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
