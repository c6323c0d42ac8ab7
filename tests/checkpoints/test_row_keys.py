"""Keys of stored rows that change: a session is read as it was, or is said to be damaged."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import segue
from segue.checkpoints.sqlite.database import SqliteConnection
from segue.checkpoints.state import checksums
from segue.checkpoints.state.checksums import check_chain, check_newest, rebuilt_from
from segue.checkpoints.state.serializer import Undecodable
from segue.core.errors import DamagedSession, NothingReadable, UnknownThread

from .damage import copied
from .worlds import world

Row = tuple[Any, ...]
"""The key of a row."""
Flip = tuple[str, str, Row, Any]
"""A table, a column, a row and what the column holds then."""
KEYS = {
    "checkpoints": ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id"),
    "writes": ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sound") / "segue.db"


async def written(path: Path, turns: int = 2) -> list[dict[str, Any]]:
    """The history of a session."""
    async with world(str(path)) as here:
        here.register("a", lambda messages: "well", "direct")
        for turn in range(1, turns + 1):
            await here.run(f"turn {turn}", agent="a")
        return await here.app.history("s")


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
            await app.recover("s")
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
    await written(tmp_path / "segue.db", turns=24)
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
            moved = "UPDATE writes SET idx = idx + {} WHERE checkpoint_id = ?"
            connection.execute(moved.format(64), ids[place : place + 1])
            with pytest.raises(Undecodable, match="its key has changed"):
                check_chain(connection, newest, ["messages"])
            connection.execute(moved.format(-64), ids[place : place + 1])
        check_chain(connection, newest, ["messages"])


async def test_rows_that_a_history_does_not_need_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await written(tmp_path / "segue.db", turns=3)
    read = list[Any]()
    monkeypatch.setattr(checksums, "_CHAIN", re.sub(r"CAST\((.*?) AS TEXT\)", r"seen(\1)", checksums._CHAIN))
    with closing(sqlite3.connect(tmp_path / "segue.db", factory=SqliteConnection)) as connection:
        connection.row_factory = sqlite3.Row
        connection.create_function("seen", 1, lambda metadata: (read.append(metadata), bytes(metadata).decode())[1])
        ids = [row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY 1 DESC")]
        check_chain(connection, ("s", "", ids[0]), [])
    assert len(ids) > 10
    assert len(read) == 2  # its driver reads one ahead
