"""Rows that change, and values that change places: a session is read as it was, or is said to be damaged."""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

import segue
from segue.checkpoints import rows
from segue.checkpoints.dictionary import DICTIONARY
from segue.checkpoints.rows import Undecodable, check_chain, check_newest, rebuilt_from
from segue.checkpoints.sqlite.database import SqliteConnection
from segue.core.environment import is_server
from segue.core.errors import DamagedSession, NothingReadable, UnknownThread

from .damage import copied
from .worlds import World, note_up_to, world

Row = tuple[Any, ...]
"""The key of a row."""
Flip = tuple[str, str, Row, Any]
"""A table, a column, a row and what the column holds then."""
KEYS = {
    "checkpoints": ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"),
    "writes": ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel"),
}


CRC = 1590208837
STORED = "6bc65a09308233fb72f7a2c37b0ecf4f0500b4b616eb24000000"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sound") / "segue.db"


async def written(path: Path, turns: int = 2) -> Sequence[dict[str, Any]]:
    """The history of a session."""
    async with world(str(path)) as here:
        here.register("a", lambda messages: "well", "direct")
        for turn in range(1, turns + 1):
            await here.run(f"turn {turn}", agent="a")
        return await here.app.history("s")


def test_the_dictionary_of_stored_values_stays() -> None:
    assert crc32(DICTIONARY) == CRC
    stored = "msgpack+deflate", bytes.fromhex(STORED)
    assert rows.SERDE.loads_typed(stored) == {"outcomes": [], "tool_calls": 1, "said": "Grüße"}


def test_a_changed_or_cut_value_is_refused_or_reads_the_same() -> None:
    value = {"outcomes": [], "said": "a text of a person"}
    kind, data = rows.SERDE.dumps_typed(value)
    unnoticed = 0
    for place in range(8 * len(data)):
        changed = bytearray(data)
        changed[place // 8] ^= 1 << place % 8
        with suppress(Undecodable):
            assert rows.SERDE.loads_typed((kind, bytes(changed))) == value
            unnoticed += 1
    assert unnoticed < 8  # bits that fill up the last byte before the checksum
    for length in range(len(data)):
        with pytest.raises(Undecodable):
            rows.SERDE.loads_typed((kind, data[:length]))


def flips(path: Path) -> Iterator[Flip]:
    """One bit of each key of each row."""
    with closing(sqlite3.connect(path)) as connection:
        for table, columns in KEYS.items():
            for row in connection.execute(f"SELECT {', '.join(columns)} FROM {table}"):
                for column, value in zip(columns, row, strict=True):
                    if value not in (None, ""):
                        yield table, column, row, flipped(value)


def flipped(value: Any) -> Any:
    return value ^ 64 if isinstance(value, int) else value[:-1] + chr(ord(value[-1]) ^ 1)


async def test_no_changed_key_changes_a_history(sound: Path, tmp_path: Path) -> None:
    expected = await written(sound)
    path, noticed = copied(sound, tmp_path), set()
    async with segue.open(path) as app:
        for table, column, row, value in flips(sound):
            changed, before = change(path, table, column, row, value)
            try:
                assert await app.history("s") == expected, (table, column, row)
            except DamagedSession:
                if (table, column) not in noticed:
                    await check_recovery(copied(path, tmp_path / f"{table}-{column}"), expected)
                noticed.add((table, column))
            change(path, table, column, changed, before)
        assert await app.history("s") == expected
    assert noticed >= {("writes", column) for column in KEYS["writes"] if column != "checkpoint_ns"}
    assert noticed >= {("checkpoints", column) for column in ("thread_id", "checkpoint_id", "parent_checkpoint_id")}


async def check_recovery(path: Path, expected: list[dict[str, Any]]) -> None:
    """Afterwards the beginning of the history can be read, if any of it can."""
    async with segue.open(path) as app:
        with suppress(NothingReadable, UnknownThread):
            await app.sessions.recover("s")
            left = await app.history("s")
            assert left == expected[: len(left)]


def change(path: Path, table: str, column: str, row: Row, value: Any) -> tuple[Row, Any]:
    """Give a column of a row another value; returns the row's key then, and what the column had."""
    key = dict(zip(KEYS[table], row, strict=True))
    where = " AND ".join(f"{name} IS :{name}" for name in key)
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = connection.execute(f"UPDATE {table} SET {column} = :new WHERE {where}", {**key, "new": value})
        assert changed.rowcount == 1
    return tuple({**key, column: value}.values()), key[column]


VALUES = {"checkpoints": "checkpoint", "writes": "value", "checkpoint_blobs": "blob"}
"""What the tables of state hold; only PostgreSQL has the last one."""
PLACES = {**KEYS, "checkpoint_blobs": ("thread_id", "checkpoint_ns", "channel", "version")}
Stored = tuple[str, str, Row, Any]
"""A table, a column, a row's key and what the column holds."""


def stored_values(here: World) -> list[Stored]:
    """What each row of state holds; in `writes` that of one channel together."""
    found: list[Stored] = []
    with closing(here.connect()) as connection:
        for table, column in VALUES.items():
            if table != "checkpoint_blobs" or is_server(here.database.url):
                asked = f"SELECT {column}, {', '.join(PLACES[table])} FROM {table} WHERE {column} IS NOT NULL"
                found += [(table, column, row[1:], row[0]) for row in connection.execute(asked).fetchall()]
    return sorted(found, key=lambda each: (each[0], each[2][0], each[0] == "writes" and each[2][-1], each[2][2]))


def exchange(here: World, one: Stored, other: Stored) -> None:
    """Let each of two rows hold what the other one held."""
    (table, column, *_), mark = one, "%s" if is_server(here.database.url) else "?"
    keys = " AND ".join(f"{name} IS NOT DISTINCT FROM {mark}" for name in PLACES[table])
    with closing(here.connect()) as connection:
        for (_, _, key, _), (*_, value) in ((one, other), (other, one)):
            new = json.dumps(value) if isinstance(value, dict) else value
            assert connection.execute(f"UPDATE {table} SET {column} = {mark} WHERE {keys}", (new, *key)).rowcount == 1
        connection.commit()


async def test_values_that_were_exchanged_are_noticed_or_change_nothing(here: World) -> None:
    here.register("a", lambda messages: f"well, {messages[-1].text}", "direct")
    for turn in ("one", "two"):
        await here.run(turn, agent="a")
    (newest, *_) = await here.app.sessions.snapshots("s")
    await here.app.rewind.fork("s", newest.checkpoint_id, session_id="twin")
    expected, noticed = [await here.app.history(name) for name in ("s", "twin")], set()
    stored = stored_values(here)
    twins = [(one, other) for one, other in combinations(stored, 2) if one[2][1:] == other[2][1:]]
    for one, other in [*pairwise(stored), *twins]:
        if one[0] != other[0] or one[3] == other[3]:
            continue
        exchange(here, one, other)
        try:
            assert [await here.app.history(name) for name in ("s", "twin")] == expected, (one, other)
        except DamagedSession:
            noticed.add(one[0])
        exchange(here, (*one[:3], other[3]), (*other[:3], one[3]))
    assert [await here.app.history(name) for name in ("s", "twin")] == expected
    assert noticed >= {"checkpoints", "writes"}


async def test_after_values_were_exchanged_a_session_goes_back_and_a_copy_of_it_is_not_sound(here: World) -> None:
    here.register("a", lambda messages: f"well, {messages[-1].text}", "direct")
    for turn in ("one", "two"):
        await here.run(turn, agent="a")
    expected = await here.app.history("s")
    messages = [each for each in stored_values(here) if each[0] == "writes" and each[2][-1] == "messages"]
    (newest, *_) = await here.app.sessions.snapshots("s")
    exchange(here, *messages[-2:])
    with suppress(DamagedSession):
        await here.app.rewind.fork("s", newest.checkpoint_id, session_id="twin")
        with pytest.raises(DamagedSession, match="segue recover twin"):
            await here.app.history("twin")
    await here.app.sessions.recover("s")
    left = await here.app.history("s")
    assert left == expected[: len(left)]


@pytest.mark.parametrize("columns", ["outcome", "name, arguments", "scope, idx", "outcome, finished_at"])
async def test_calls_that_were_exchanged_are_damaged_and_not_made_again(here: World, columns: str) -> None:
    here.register("a", note_up_to(3), "react")
    task_id = await here.run_to(2, "note", agent="a")
    with closing(here.connect()) as connection:
        asked = f"SELECT {columns} FROM calls ORDER BY position"
        one, two = connection.execute(asked).fetchall()
        mark = "%s" if is_server(here.database.url) else "?"
        new = ", ".join(f"{name} = {mark}" for name in columns.split(", "))
        change = f"UPDATE calls SET {new} WHERE position = (SELECT {{}}(position) FROM calls)"
        if "scope" in columns:  # no two calls may have one place, for a moment either
            connection.execute(change.format("min"), ("elsewhere", 0))
        connection.execute(change.format("max"), one)
        connection.execute(change.format("min"), two)
        connection.commit()
    with pytest.raises(DamagedSession, match="checksum does not match"):
        await here.app.trace(task_id)
    back = await here.app.sessions.recover("s")
    assert len(back.repaired) == 2
    await here.app.resume(task_id)
    assert here.noted == [1, 2, 3]


async def test_a_call_whose_arguments_were_changed_is_not_made_again(here: World) -> None:
    here.register("a", note_up_to(3), "react")
    task_id = await here.run_to(2, "note", agent="a")
    with closing(here.connect()) as connection:
        (arguments,) = connection.execute("SELECT arguments FROM calls ORDER BY position DESC LIMIT 1").fetchone()
        mark = "%s" if is_server(here.database.url) else "?"
        change = f"UPDATE calls SET arguments = {mark} WHERE position = (SELECT max(position) FROM calls)"
        connection.execute(change, (arguments.replace("2", "7"),))
        connection.commit()
    await here.app.sessions.recover("s")
    await here.app.resume(task_id)
    assert here.noted.count(2) == 1


async def test_a_checkpoint_that_was_added_meanwhile_is_not_a_missing_one(tmp_path: Path) -> None:
    await written(tmp_path / "segue.db")
    with closing(sqlite3.connect(tmp_path / "segue.db")) as connection:
        connection.row_factory = sqlite3.Row
        places = "SELECT thread_id, checkpoint_ns, checkpoint_id FROM writes WHERE checkpoint_ns = '' ORDER BY 3"
        read, *_, added = map(tuple, connection.execute(places))
        check_newest(connection, read)
        connection.execute("DELETE FROM checkpoints WHERE checkpoint_id = ?", (added[2],))
        with pytest.raises(Undecodable, match=f"its newest checkpoint {added[2]} is missing"):
            check_newest(connection, read)


async def test_the_rows_of_a_long_history_are_read_by_the_page_and_each_is_checked(tmp_path: Path) -> None:
    await written(tmp_path / "segue.db", turns=36)
    with closing(sqlite3.connect(tmp_path / "segue.db", factory=SqliteConnection)) as connection:
        connection.row_factory = sqlite3.Row
        ids = [row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1 DESC")]
        newest, statements = ("s", "", ids[0]), list[str]()
        connection.set_trace_callback(statements.append)
        check_chain(connection, newest, ["messages"])
        assert len(ids) > 128
        assert len(statements) < 10
        assert rebuilt_from(connection, newest) == ids
        for place in (1, 63, 64, 65, 100, len(ids) - 1):
            asked = "UPDATE checkpoints SET checkpoint_id = ? WHERE checkpoint_id = ?"
            connection.execute(asked, ("gone", ids[place]))
            with pytest.raises(Undecodable, match=f"{ids[place]}, which is missing"):
                check_chain(connection, newest, ["messages"])
            connection.execute(asked, (ids[place], "gone"))
        logged = connection.execute("SELECT checkpoint_id FROM writes WHERE channel = 'messages' ORDER BY 1 DESC")
        upon = [row[0] for row in logged.fetchall()]
        assert len(upon) > 36
        for checkpoint_id in (*upon[1:40:9], upon[-1]):
            moved = "UPDATE writes SET idx = idx + {} WHERE checkpoint_id = ?"
            connection.execute(moved.format(64), (checkpoint_id,))
            with pytest.raises(Undecodable, match="its key has changed"):
                check_chain(connection, newest, ["messages"])
            connection.execute(moved.format(-64), (checkpoint_id,))
        check_chain(connection, newest, ["messages"])


async def test_rows_that_a_history_does_not_need_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await written(tmp_path / "segue.db", turns=3)
    read = list[Any]()
    monkeypatch.setattr(rows, "_CHAIN", re.sub(r"CAST\((.*?) AS TEXT\)", r"seen(\1)", rows._CHAIN))
    with closing(sqlite3.connect(tmp_path / "segue.db", factory=SqliteConnection)) as connection:
        connection.row_factory = sqlite3.Row
        connection.create_function("seen", 1, lambda metadata: (read.append(metadata), bytes(metadata).decode())[1])
        ids = [row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1 DESC")]
        check_chain(connection, ("s", "", ids[0]), [])
    assert len(ids) > 10
    assert len(read) == 2  # its driver reads one ahead
