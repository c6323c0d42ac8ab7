"""The one thread that writes: what waits together is committed together, and each transaction stands for itself."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from segue.checkpoints.database import INLINE, READERS
from segue.checkpoints.sqlite.database import LOG_PAGES, open_database
from segue.checkpoints.sqlite.database import SqliteDatabase as Database
from segue.core.errors import AppClosed, DatabaseUnavailable
from tests.polling import SECONDS, until

from .conftest import locked

Work = Callable[[sqlite3.Connection], Any]


def insert(name: str, size: int = 0) -> Work:
    return lambda db: db.execute("INSERT INTO leases VALUES (?, ?, 1, 0)", (name, "x" * size)).rowcount


def synchronous(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA synchronous").fetchone()[0])


async def names(database: Database) -> list[str]:
    rows = await database.read(lambda db: db.execute("SELECT thread_id FROM leases ORDER BY rowid").fetchall())
    return [row[0] for row in rows]


class Log:
    """The statements of the writing connection."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def attach(self, connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(self.statements.append)

    def commits(self) -> int:
        return self.statements.count("COMMIT")


@pytest.fixture
async def log(database: Database) -> AsyncIterator[Log]:
    log = Log()
    await database.write(log.attach)
    log.statements.clear()
    yield log


async def together(database: Database, *works: Work, synced: int = -1) -> list[Any]:
    """Submit transactions while another one is under way, so that they wait together."""
    begun, go = threading.Event(), threading.Event()

    def hold(connection: sqlite3.Connection) -> None:
        begun.set()
        go.wait(SECONDS)

    first = database.submit(hold)
    await until(begun.is_set)
    rest = [database.submit(work, synced=place == synced) for place, work in enumerate(works)]
    go.set()
    await first
    return await asyncio.gather(*rest, return_exceptions=True)


async def test_transactions_that_wait_together_are_committed_together(database: Database, log: Log) -> None:
    assert await together(database, *(insert(f"s{n}") for n in range(9))) == [1] * 9
    assert log.commits() == 2
    assert await names(database) == [f"s{n}" for n in range(9)]


async def test_one_that_fails_takes_no_other_with_it(database: Database) -> None:
    done, refused, other = await together(database, insert("s"), insert("s"), insert("t"))
    assert (done, other) == (1, 1)
    assert isinstance(refused, sqlite3.IntegrityError)
    assert await names(database) == ["s", "t"]


async def test_one_that_finds_no_room_takes_no_other_with_it(database: Database) -> None:
    connect = database._session._connect

    def bounded() -> sqlite3.Connection:
        connection = connect()
        connection.execute("PRAGMA max_page_count = 40")
        return connection

    database._session._connect = bounded
    done, refused, other = await together(database, insert("s"), insert("large", 200_000), insert("t"))
    assert (done, other) == (1, 1)
    assert isinstance(refused, DatabaseUnavailable)
    assert "is full" in str(refused)
    assert await names(database) == ["s", "t"]


async def test_an_error_that_is_kept_hinders_no_later_transaction(database: Database, other: Database) -> None:
    await asyncio.gather(*(database.write(insert(f"s{n}")) for n in range(9)))

    def fail(connection: sqlite3.Connection) -> None:
        for _ in connection.execute("SELECT * FROM leases"):
            raise KeyError("in the middle")

    with pytest.raises(KeyError) as kept:
        await database.write(fail)
    with pytest.raises(KeyError) as read:
        await database.read(fail)
    await other.write(insert("t"))
    assert await database.write(insert("u")) == 1
    assert [(await names(database))[-2:] for _ in range(2 * READERS)] == [["t", "u"]] * 2 * READERS
    assert kept.value.args == read.value.args


async def test_a_group_is_synced_if_one_of_it_is(database: Database) -> None:
    assert await together(database, synchronous, synchronous, synced=1) == [2, 2]
    assert await together(database, synchronous, synchronous) == [1, 1]


async def test_a_lock_is_waited_for_once_by_all(path: str) -> None:
    async with await open_database(path, lock_timeout=0.5) as database:
        with locked(path):
            waiting = [database.submit(insert(f"s{n}")) for n in range(200)]  # in turn, they would wait 100 s
            errors = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        assert all(isinstance(error, DatabaseUnavailable) and "locked" in str(error) for error in errors)
        assert await names(database) == []


def insert_here(name: str, size: int = 0) -> Work:
    """As `insert`, with the name of the thread that did it."""

    def work(connection: sqlite3.Connection) -> str:
        insert(name, size)(connection)
        return threading.current_thread().name

    return work


HERE = threading.main_thread().name


async def test_brief_ones_of_a_turn_are_committed_together_on_the_event_loop(database: Database, log: Log) -> None:
    done = await asyncio.gather(*(database.write(insert_here(f"s{n}"), brief=True) for n in range(9)))
    assert (set(done), log.commits()) == ({HERE}, 1)
    assert await names(database) == [f"s{n}" for n in range(9)]
    assert await database.read(lambda _: threading.current_thread().name, brief=True) == HERE


async def test_a_long_or_synced_one_is_left_to_the_thread_with_what_came_before(database: Database, log: Log) -> None:
    both = asyncio.gather(database.write(insert_here("s"), brief=True), database.write(insert_here("t")))
    assert HERE not in await both and log.commits() == 1
    assert await database.write(insert_here("u"), synced=True, brief=True) != HERE
    assert await names(database) == ["s", "t", "u"]


async def test_a_brief_one_waits_for_another_process_without_the_event_loop(path: str) -> None:
    async with await open_database(path, lock_timeout=SECONDS) as database:
        with locked(path):
            written = database.submit(insert_here("s"), brief=True)
            await asyncio.sleep(0.05)
            assert not written.done()
        assert await written != HERE


async def test_a_brief_one_that_fails_takes_no_other_with_it(database: Database) -> None:
    works = [insert("s"), insert("s"), insert("t")]
    done, refused, other = await asyncio.gather(
        *(database.submit(work, brief=True) for work in works), return_exceptions=True
    )
    assert (done, other) == (1, 1)
    assert isinstance(refused, sqlite3.IntegrityError)
    assert await names(database) == ["s", "t"]


async def test_brief_ones_leave_a_short_log(database: Database) -> None:
    log = Path(f"{database.path}-wal")
    for n in range(40 * INLINE):
        await database.write(insert_here(f"s{n}", 10_000), brief=True)
    assert (await asyncio.to_thread(log.stat)).st_size < 3 * LOG_PAGES * 4096


async def test_after_a_slow_commit_the_event_loop_is_left_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("segue.checkpoints.database.SLOW", -1)
    assert [await database.write(insert_here(name), brief=True) == HERE for name in "st"] == [True, False]


async def test_a_deferred_one_is_committed_with_the_next(database: Database, log: Log) -> None:
    deferred = database.submit(insert("first"), deferred=True)
    assert await database.write(insert("second")) == 1
    assert deferred.done()
    assert log.commits() == 1
    assert await names(database) == ["first", "second"]


async def test_a_deferred_one_is_seen_by_a_read_and_needs_no_other(database: Database, log: Log) -> None:
    database.submit(insert("s"), deferred=True)
    assert await names(database) == ["s"]
    assert await asyncio.wait_for(database.submit(insert("t"), deferred=True), SECONDS) == 1
    assert log.commits() == 2


async def test_a_deferred_one_that_is_joined_is_a_part_of_the_next(database: Database, log: Log) -> None:
    deferred = database.submit(insert("whole"), deferred=True)
    assert await database.submit(insert("second"), joined={deferred: insert("part")}) == 1
    assert (await deferred, log.commits()) == (1, 1)
    assert await database.submit(insert("third"), joined={deferred: insert("too late")}) == 1
    assert await names(database) == ["part", "second", "third"]


async def test_a_deferred_one_that_others_came_after_stays_in_its_place(database: Database) -> None:
    begun, go = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        go.wait(SECONDS)

    held = database.submit(hold)
    await asyncio.to_thread(begun.wait, SECONDS)
    deferred = database.submit(insert("whole"), deferred=True)
    after = database.submit(insert("after"), synced=True)
    last = database.submit(insert("last"), joined={deferred: insert("part")})
    go.set()
    await asyncio.gather(held, deferred, after, last)
    assert await names(database) == ["whole", "after", "last"]


async def test_what_is_joined_fails_with_the_whole(database: Database) -> None:
    noted: list[BaseException] = []
    deferred = database.submit(insert("first"), deferred=True, failed=noted.append)

    def refuse(_: sqlite3.Connection) -> None:
        raise KeyError("refused")

    with pytest.raises(KeyError):
        await database.submit(refuse, joined={deferred: insert("part")})
    with pytest.raises(KeyError):
        await deferred
    assert len(noted) == 1
    assert await names(database) == []


async def test_what_was_submitted_is_written_before_it_closes(path: str) -> None:
    database = await open_database(path)
    waiting = [database.submit(insert(f"s{n}"), deferred=n % 2 == 0) for n in range(4)]
    await database.close()
    assert [await each for each in waiting] == [1] * 4
    with pytest.raises(AppClosed, match="is closed"):
        database.submit(insert("late"), deferred=True)
    async with await open_database(path) as again:
        assert len(await names(again)) == 4


class Broken(sqlite3.Connection):
    """A connection that can roll nothing back, as after an I/O error."""

    def rollback(self) -> None:
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("others", [0, 1])
async def test_a_rollback_that_fails_leaves_nobody_waiting(database: Database, others: int) -> None:
    database._session._connect = lambda: sqlite3.connect(database.path, factory=Broken, isolation_level=None)
    database._session.close()
    used: list[sqlite3.Connection] = []

    def fail(connection: sqlite3.Connection) -> None:
        used.append(connection)
        raise KeyError("refused")

    works = [fail, *(insert(f"s{n}") for n in range(others))]
    refused, *done = await asyncio.wait_for(together(database, *works), SECONDS)
    assert isinstance(refused, KeyError)
    assert done == [1] * others
    assert len(set(used)) == len(used) == 1 + others, "a connection that failed is not used again"
