"""Damaged checkpoints: every read refuses them, and the session goes back to the newest state that can be read."""

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from segue.checkpoints.damage import recover
from segue.checkpoints.leases import Lease
from segue.checkpoints.rows import WRITE_KEY, value_checksum
from segue.checkpoints.saver import FencedSaver
from segue.core.errors import DamagedCheckpoint, NothingReadable, StaleOwner, ThreadBusy, UnknownThread
from segue.runtime.run import state_at, thread_config

from .damage import ANSWER, INNER, LABELS, OUTER, Work, copied, garble, rows

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
        assert (
            await app.sessions.recover("s")
        ).dropped == 2  # the checkpoint, and what is left of the step that led to it
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
