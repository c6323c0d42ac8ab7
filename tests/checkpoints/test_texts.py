"""Long texts of a session's state: stored once, and there wherever the state is read."""

import asyncio
import shutil
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

import segue
from segue import Agent
from segue.checkpoints.rows import RETAINED, SERDE, decompressed, may_hold_long_text
from segue.checkpoints.sqlite.database import SqliteConnection
from segue.checkpoints.sqlite.state import StateReader, StateWriter, put_texts
from segue.core.errors import DamagedCheckpoint
from tests.fakes import ScriptedChatModel, answer, call_tool

PAGE = "".join(f"Line {number} of the page. " for number in range(60))
QUESTION = "What does the page say? " + "Please be exact. " * 30
LONG = st.integers(200, 70_000).flatmap(lambda size: st.sampled_from("aé漢\u06da\U0001f600").map(lambda c: c * size))
STATE = st.recursive(st.binary(max_size=600) | st.text(max_size=20) | LONG, st.lists, max_leaves=8)


def there_and_back(value: Any) -> Any:
    with closing(sqlite3.connect(":memory:", factory=SqliteConnection)) as connection:
        connection.execute("CREATE TABLE texts (thread_id, digest, text)")
        writer = StateWriter()
        stored = writer.dumps_typed(value)
        put_texts(connection, "s", writer.texts)
        return StateReader(SERDE, connection, "s").loads_typed(stored)


@given(STATE)
def test_state_is_read_as_it_was_written(value: Any) -> None:
    assert there_and_back(value) == value


def test_bytes_that_look_like_a_text_stay_what_they_are() -> None:
    looks = b"\xda\x01\x00" + b"x" * 256
    value = {
        "bytes": looks,
        "cut": b"\xda\xff\xff",
        "messages": [HumanMessage(PAGE), AIMessage(PAGE)],
        "many": [PAGE] * 3,
    }
    assert there_and_back(value) == value


def rows(path: Path, statement: str, *values: Any) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement, values).fetchall()


def agent() -> Agent:
    def read_page() -> str:
        """Read the page."""
        return PAGE

    return Agent(
        agent_id="a",
        model=ScriptedChatModel([call_tool(("read_page", {})), answer("It has lines."), answer("Yes, lines.")]),
        mode="react",
        tools=[segue.tool(read_only=True)(read_page)],
    )


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a session of two turns, in which a long question and a long result stand in many places."""
    path = tmp_path_factory.mktemp("texts") / "segue.db"

    async def ask() -> None:
        async with segue.open(path, agents=[agent()]) as app:
            await app.ask(QUESTION, session_id="s", agent="a")
            await app.ask("Sure?", session_id="s", agent="a")

    asyncio.run(ask())
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    """A copy of it for each test."""
    return Path(shutil.copy(original, tmp_path))


async def test_a_text_is_stored_once_and_state_holds_none(path: Path) -> None:
    texts = [zlib.decompress(text).decode() for (text,) in rows(path, "SELECT text FROM texts WHERE thread_id = 's'")]
    assert sorted(texts) == sorted([QUESTION, PAGE])
    for table, column in (("checkpoints", "checkpoint"), ("writes", "value")):
        for kind, data in rows(path, f"SELECT type, {column} FROM {table} WHERE type <> 'null'"):
            assert b"Line 7 of" not in decompressed(kind, data)[1]


async def test_a_fork_and_an_import_have_their_own_and_a_deletion_takes_them(path: Path) -> None:
    async with segue.open(path, agents=[agent()]) as app:
        before = await app.history("s")
        (newest, *_) = await app.sessions.snapshots("s")
        await app.rewind.fork("s", newest.checkpoint_id, session_id="twin")
        await app.sessions.import_(await app.sessions.export("s"), session_id="third")
        await app.sessions.delete("s")
        assert not rows(path, "SELECT * FROM texts WHERE thread_id = 's'")
        assert await app.history("twin") == await app.history("third") == before


async def test_a_pruning_drops_what_no_snapshot_refers_to_any_more(path: Path) -> None:
    async with segue.open(path, agents=[agent()]) as app:
        before, count = await app.history("s"), "SELECT count(*) FROM texts"
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO texts VALUES ('s', x'00', x'00')")
        ((stored,),) = rows(path, count)
        await app.sessions.prune(1, session_id="s")
        assert rows(path, count) < [(stored,)]
        assert await app.history("s") == before


@pytest.mark.parametrize("damage", ["DELETE FROM texts", "UPDATE texts SET text = x'00'", "UPDATE texts SET text = 1"])
async def test_a_text_that_is_missing_or_has_changed_is_damage(path: Path, damage: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    async with segue.open(path, agents=[agent()]) as app:
        with pytest.raises(DamagedCheckpoint, match="a text of it"):
            await app.history("s")


async def test_state_that_cannot_be_read_stops_neither_a_fork_nor_a_pruning(path: Path) -> None:
    damaged = "type LIKE '%+texts%' AND channel = 'result'"
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(f"UPDATE writes SET value = x'0102' WHERE {damaged}").rowcount
    async with segue.open(path, agents=[agent()]) as app:
        before, count = await app.history("s"), "SELECT count(*) FROM texts WHERE thread_id = 's'"
        (newest, *_) = await app.sessions.snapshots("s")
        await app.rewind.fork("s", newest.checkpoint_id, session_id="twin")
        stored = rows(path, count)
        assert (await app.sessions.prune(2)).sessions == 2
        assert await app.history("s") == await app.history("twin") == before
        assert rows(path, count) == stored


async def test_another_text_in_its_place_is_damage(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE texts SET text = ?", (zlib.compress(b"another"),))
    async with segue.open(path, agents=[agent()]) as app:
        with pytest.raises(DamagedCheckpoint, match="a text of it has changed"):
            await app.history("s")


async def test_the_result_of_a_task_is_stored_with_the_task_alone(path: Path) -> None:
    told = "json_extract(event, '$.type') = 'task_complete'"
    assert (
        rows(path, f"SELECT scope, json_extract(event, '$.data.result') FROM events WHERE {told}") == [("", None)] * 2
    )
    async with segue.open(path) as app:
        for task in await app.tasks.list(session_id="s"):
            (complete,) = [each for each in await app.events(task.task_id) if each.type == "task_complete"]
            assert complete.data["result"] == task.result


async def test_of_old_turns_only_the_writes_stay_that_state_is_rebuilt_from(tmp_path: Path) -> None:
    path, turns = tmp_path / "segue.db", 6
    replies = ScriptedChatModel([answer("Yes.")] * turns)
    async with segue.open(path, agents=[Agent(agent_id="a", model=replies, mode="react")]) as app:
        for _ in range(turns):
            await app.ask("Is it?", session_id="s", agent="a")
        assert len(await app.history("s")) == 2 * turns
        steps = [each.step for each in await app.sessions.snapshots("s", limit=-1) if not each.inside]
        assert steps == [*range(len(steps) - 2, -2, -1)]
    outer = "SELECT checkpoint_id FROM checkpoints WHERE checkpoint_ns = '' ORDER BY checkpoint_id DESC"
    newest = [checkpoint for (checkpoint,) in rows(path, outer)]
    written = {each for (each,) in rows(path, "SELECT checkpoint_id FROM writes WHERE channel = 'result'")}
    assert written and written <= set(newest[: RETAINED + 1])


def test_bytes_that_only_look_like_the_header_of_a_long_text_are_told_apart() -> None:
    looks = b"\xda\x7f\xff \xdb\xff\xff\xff\xff \xda"
    assert not may_hold_long_text(SERDE.plain_typed({"bytes": looks, "text": "a" * 255})[1])
    for size in (256, 65_535, 65_536):
        assert may_hold_long_text(SERDE.plain_typed({"bytes": looks, "text": "a" * size})[1])
