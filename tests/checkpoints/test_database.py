"""Opening a database, and saying what is wrong with it."""

import asyncio
import gc
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from segue.checkpoints.leases import Lease, Renewal
from segue.checkpoints.ports import Database
from segue.checkpoints.sqlite import state
from segue.checkpoints.sqlite.database import DamagedLog, SqliteBackend, find_fault, open_database, rewrite, shrink
from segue.core.errors import DatabaseTooNew, DatabaseUnavailable, ThreadBusy

NOBODY = 65534


@contextmanager
def plain(path: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def is_there(path: str) -> bool:
    return os.path.exists(path)


def size(path: str) -> int:
    return os.path.getsize(path)


def overwrite(path: str, offset: int, content: bytes) -> None:
    with open(path, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(content)


async def test_a_new_file_gets_the_schema_and_write_ahead_logging(path: str) -> None:
    await (await open_database(path)).close()
    with plain(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (state.SCHEMA_VERSION,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_only_a_synced_write_waits_for_the_disk(database: Database) -> None:
    def synchronous(connection: sqlite3.Connection) -> int:
        return int(connection.execute("PRAGMA synchronous").fetchone()[0])

    assert [await database.write(synchronous, synced=synced) for synced in (False, True, False)] == [1, 2, 1]


async def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(DatabaseUnavailable, match="is read-only"):
        await database.read(lambda db: db.execute("DELETE FROM leases"))


async def test_memory_is_a_file_that_goes_with_the_database() -> None:
    async with await open_database(":memory:") as one, await open_database(":memory:") as two:
        assert await Lease(one).acquire("s", "one") == await Lease(two).acquire("s", "two") == 1
        assert is_there(one.path)
    assert not is_there(os.path.dirname(one.path))
    assert not is_there(os.path.dirname(two.path))


async def test_an_older_database_is_upgraded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await open_database(path)).close()
    monkeypatch.setattr(state, "SCRIPTS", (*state.SCRIPTS, ("CREATE TABLE memories (text TEXT)",)))
    monkeypatch.setattr(state, "SCHEMA_VERSION", state.SCHEMA_VERSION + 1)
    await (await open_database(path)).close()
    with plain(path) as connection:
        assert connection.execute("SELECT * FROM memories").fetchall() == []
        assert connection.execute("PRAGMA user_version").fetchone() == (state.SCHEMA_VERSION,)


async def test_an_upgrade_that_fails_leaves_the_database_as_it_was(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await open_database(path)).close()
    with monkeypatch.context() as patched:
        patched.setattr(state, "SCRIPTS", (*state.SCRIPTS, ("CREATE TABLE memories (text TEXT)", "CREATE NONSENSE")))
        patched.setattr(state, "SCHEMA_VERSION", state.SCHEMA_VERSION + 1)
        with pytest.raises(sqlite3.OperationalError, match="syntax error"):
            await open_database(path)
    with plain(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (state.SCHEMA_VERSION,)
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'memories'").fetchone() == (0,)


async def test_a_newer_database_is_refused(path: str) -> None:
    await (await open_database(path)).close()
    with plain(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(DatabaseTooNew, match=f"schema version 99 and this Segue supports up to {state.SCHEMA_VERSION}"):
        await open_database(path)


async def test_a_definition_that_cannot_be_read_is_damage(path: str) -> None:
    await (await open_database(path)).close()
    with plain(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = replace(sql, 'coalesce', 'coamesce')")
    with pytest.raises(DatabaseUnavailable, match="is damaged"):
        await open_database(path)


@pytest.mark.parametrize("version", [1, state.FIRST - 1])
async def test_a_database_of_an_unpublished_version_is_refused(path: str, version: int) -> None:
    await (await open_database(path)).close()
    with plain(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(DatabaseUnavailable, match="export its sessions with the Segue that wrote it"):
        await open_database(path)


async def test_a_database_of_langgraphs_own_saver_is_taken_over(path: str) -> None:
    with plain(path) as connection:
        SqliteSaver(connection).setup()
    await (await open_database(path)).close()
    with plain(path) as connection:
        assert connection.execute("SELECT kept_writes, checksum FROM checkpoints").fetchall() == []
        assert connection.execute("SELECT checksum FROM writes").fetchall() == []


async def test_another_programs_database_is_left_alone(path: str) -> None:
    with plain(path) as connection:
        connection.execute("CREATE TABLE albums (title TEXT)")
    with pytest.raises(DatabaseUnavailable, match="belongs to another program"):
        await open_database(path)
    with plain(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("albums",)]
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "name a file"),
        ("{}", "is a folder"),
        ("{}/nowhere/segue.db", r"The folder .*nowhere does not exist: create it"),
    ],
)
async def test_what_cannot_be_a_database_is_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(DatabaseUnavailable, match=said):
        await open_database(name.format(tmp_path))


async def test_a_database_that_is_opened_to_read_refuses_writes(path: str) -> None:
    await (await open_database(path)).close()
    async with await open_database(f"file:{path}?mode=ro") as database:
        with pytest.raises(DatabaseUnavailable, match="is read-only: make it writable, or name another file with --db"):
            await Lease(database).acquire("s", "me")


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A folder that this process cannot write in, whoever runs it."""
    user = os.geteuid()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        yield folder
        os.seteuid(user)
        folder.chmod(0o755)


def lock(folder: Path) -> None:
    folder.chmod(0o555)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)


async def test_a_database_can_be_read_in_a_folder_that_cannot_be_written(unwritable: Path) -> None:
    path = unwritable / "segue.db"
    async with await open_database(str(path)) as database:
        await Lease(database).acquire("s", "me")
    lock(unwritable)
    async with await open_database(f"file:{path}?mode=ro") as database:
        assert await database.read(lambda connection: connection.fetched("SELECT thread_id FROM leases"))
    assert os.listdir(unwritable) == ["segue.db"]


async def test_a_database_with_a_log_in_a_folder_that_cannot_be_written_is_refused(unwritable: Path) -> None:
    path = unwritable / "segue.db"
    await (await open_database(str(path))).close()
    overwrite(f"{path}-wal", 0, b"log")
    lock(unwritable)
    with pytest.raises(DatabaseUnavailable, match=r"copy it together with .*segue.db-wal into another folder"):
        await open_database(f"file:{path}?mode=ro")


async def test_a_locked_database_is_refused_at_opening_and_later(path: str) -> None:
    async with await open_database(path, lock_timeout=0.1) as database:
        with plain(path) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            with pytest.raises(DatabaseUnavailable, match="is locked by another process"):
                await open_database(path, lock_timeout=0.1)
            with pytest.raises(DatabaseUnavailable, match="is locked by another process"):
                await Lease(database).acquire("s", "me")
            connection.execute("ROLLBACK")
        assert await Lease(database).acquire("s", "me") == 1


async def test_a_full_disk_is_reported_and_nothing_half_written(database: Database) -> None:
    def fill(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA max_page_count = 1")
        connection.execute("INSERT INTO leases VALUES ('first', 'me', 1, 0)")
        connection.execute("INSERT INTO leases VALUES (?, 'me', 1, 0)", ("x" * 100_000,))

    with pytest.raises(DatabaseUnavailable, match="is full: free"):
        await database.write(fill)
    assert await database.read(lambda db: db.execute("SELECT count(*) FROM leases").fetchone()[0]) == 0


async def test_a_damaged_database_is_reported(path: str) -> None:
    async with await open_database(path) as database:
        for n in range(200):
            await Lease(database).acquire(f"thread {n}" * 20, "me")
    overwrite(path, 327680, b"\xff" * 65536)
    async with await open_database(path) as database:
        with pytest.raises(DatabaseUnavailable, match="is damaged: restore it from a copy"):
            await database.read(lambda db: db.execute("SELECT * FROM leases ORDER BY owner").fetchall())


async def test_a_faulty_statement_is_no_trouble_with_the_file(database: Database) -> None:
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await database.read(lambda db: db.execute("SELECT * FROM nonsense"))


async def test_a_cancelled_caller_does_not_cut_a_write_short(database: Database) -> None:
    blocker = asyncio.ensure_future(database.write(lambda db: db.execute(_SLOW).fetchone()))
    insert = "INSERT INTO leases VALUES ('s', 'me', 1, 9e9)"
    write = asyncio.ensure_future(database.write(lambda db: db.execute(insert)))
    await asyncio.sleep(0.01)
    write.cancel()
    await asyncio.wait([blocker, write])
    assert write.cancelled()
    with pytest.raises(ThreadBusy):
        await Lease(database).acquire("s", "you")


async def test_a_write_that_fails_after_its_caller_was_cancelled_is_not_reported(database: Database) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    blocker = asyncio.ensure_future(database.write(lambda db: db.execute(_SLOW).fetchone()))
    write = asyncio.ensure_future(database.write(lambda db: db.execute("SELECT * FROM nonsense")))
    await asyncio.sleep(0.01)
    write.cancel()
    await asyncio.wait([blocker, write])
    await database.write(lambda _: None)
    gc.collect()
    assert write.cancelled() and not reported


async def test_a_cancelled_caller_leaves_no_lease_behind(database: Database) -> None:
    blocker = asyncio.ensure_future(database.write(lambda db: db.execute(_SLOW).fetchone()))
    taking = asyncio.ensure_future(Lease(database).acquire("s", "me"))
    await asyncio.sleep(0.01)
    taking.cancel()
    await asyncio.wait([blocker, taking])
    assert taking.cancelled()
    assert await Lease(database).holder("s") is None


async def test_opening_waits_for_a_writer_before_it_switches_to_write_ahead_logging(path: str) -> None:
    with plain(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        opening = asyncio.ensure_future(open_database(path))
        await asyncio.sleep(0.3)
        assert not opening.done()
        connection.execute("COMMIT")
        await (await opening).close()


@pytest.mark.slow
async def test_many_processes_may_create_the_same_database(path: str) -> None:
    with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
        fences = list(pool.map(_create, [path] * 9))
    assert sorted(fences) == list(range(1, 10))


def _create(path: str) -> int:
    async def create() -> int:
        async with await open_database(path) as database:
            return await Lease(database).acquire("s", "me", ttl=0)

    return asyncio.run(create())


_SLOW = """
    WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 1000000)
    SELECT max(n) FROM count
"""


@pytest.mark.parametrize("earlier", [False, True])
async def test_freed_pages_are_returned(path: str, earlier: bool) -> None:
    if earlier:
        with plain(path) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    many = [("s", b"%d" % number, b"x" * 5_000) for number in range(1_000)]
    async with await open_database(path) as database:
        await database.write(lambda db: db.executemany("INSERT INTO texts VALUES (?, ?, ?)", many))
        await database.write(lambda db: db.execute("DELETE FROM texts"))
        await (rewrite(database) if earlier else shrink(database))
    with plain(path) as connection:
        (incremental,) = connection.execute("PRAGMA auto_vacuum").fetchone()
        assert incremental == 2, "the next ones are returned without rewriting the file"
    assert size(path) < 1_000_000


# A database whose file is deleted, replaced, or has a damaged write-ahead log.


PAGE, HEADER, FRAME_HEADER = 4096, 32, 24


@pytest.fixture
async def crashed(path: str, tmp_path: Path) -> str:
    """A database as a killed process leaves it: what was committed is in the write-ahead log alone."""
    copy = str(tmp_path / "crashed.db")
    async with await open_database(path) as database:
        for number in range(4):
            await Lease(database).acquire(f"s{number}", "me")
        await SqliteBackend(database).sync()
        await Lease(database).acquire("s4", "me")
        for end in ("", "-wal", "-anchor"):
            shutil.copy(path + end, copy + end)
    return copy


def flip(file: str, offset: int) -> None:
    with open(file, "r+b") as opened:
        opened.seek(offset)
        byte = opened.read(1)[0]
        opened.seek(offset)
        opened.write(bytes([byte ^ 1]))


def append(file: str, content: bytes) -> None:
    with open(file, "ab") as opened:
        opened.write(content)


def replace(path: str) -> None:
    shutil.copy(path, f"{path}.copy")
    os.replace(f"{path}.copy", path)


@pytest.mark.parametrize("change", [os.unlink, replace])
async def test_nothing_is_written_once_the_file_is_another(path: str, change: Callable[[str], None]) -> None:
    async with await open_database(path) as database:
        fence = await Lease(database).acquire("s", "me")
        change(path)
        for attempt in (
            lambda: Lease(database).acquire("t", "me"),
            lambda: Lease(database).holder("s"),
        ):
            with pytest.raises(DatabaseUnavailable, match="was deleted or replaced while it was open"):
                await attempt()
        renewals = Renewal(database)
        with pytest.raises(DatabaseUnavailable, match="was deleted or replaced"):
            renewals.renew({"s": fence}, 15)
    assert is_there(path) is (change is replace)


async def test_a_log_that_a_killed_process_left_is_whole(crashed: str) -> None:
    append(f"{crashed}-wal", b"half a frame")
    async with await open_database(crashed) as database:
        assert await Lease(database).holder("s4") == "me"


@pytest.mark.parametrize("committed", [False, True])
def test_frames_of_a_transaction_that_a_kill_interrupted_may_follow(crashed: str, committed: bool) -> None:
    """The next process begins to write where that transaction began; if it is killed, too, the rest of it follows."""
    log = Path(f"{crashed}-wal")
    content = log.read_bytes()
    frame = content[HEADER : HEADER + 4] + bytes(4) + content[16:24] + bytes(8 + PAGE)
    append(str(log), frame + frame[:7] + bytes([committed]) + frame[8:])
    assert (find_fault(crashed) is not None) == committed


@pytest.mark.parametrize(
    "offset",
    [3, 17, 29, HEADER + 1, HEADER + 9, HEADER + 17, HEADER + FRAME_HEADER + 100],
    ids=["magic", "salt", "checksum", "page number", "salt of a frame", "checksum of a frame", "page"],
)
async def test_a_damaged_log_is_refused_and_its_beginning_can_be_kept(crashed: str, offset: int) -> None:
    flip(f"{crashed}-wal", offset + (0 if offset < HEADER else 2 * (PAGE + FRAME_HEADER)))
    damage = find_fault(crashed)
    assert isinstance(damage, DamagedLog)
    advice = f"truncate -s {damage.whole} {crashed}-wal && rm -f {crashed}-anchor"
    with pytest.raises(DatabaseUnavailable, match=f"is damaged .* {advice}$"):
        await open_database(crashed)
    assert find_fault(crashed) == damage
    os.truncate(f"{crashed}-wal", damage.whole)
    os.unlink(f"{crashed}-anchor")
    await (await open_database(crashed)).close()


async def test_a_log_that_lost_a_synced_end_is_refused(crashed: str) -> None:
    """SQLite takes every beginning of a log for a whole one."""
    size = os.stat(f"{crashed}-wal").st_size
    os.truncate(f"{crashed}-wal", size - 1)  # the last commit was not synced: a power cut may take it
    assert find_fault(crashed) is None
    frames = (size - HEADER) // (PAGE + FRAME_HEADER)
    for left in (frames - 3, 2, 0):
        os.truncate(f"{crashed}-wal", HEADER + left * (PAGE + FRAME_HEADER) + 7)
        damage = find_fault(crashed)
        assert isinstance(damage, DamagedLog) and (damage.frames, damage.whole) == (
            left,
            HEADER + left * (PAGE + FRAME_HEADER),
        )
    with pytest.raises(DatabaseUnavailable, match="is damaged"):
        await open_database(crashed)
    os.unlink(f"{crashed}-anchor")
    await (await open_database(crashed)).close()


def test_an_anchor_that_cannot_be_read_or_is_of_another_log_tells_nothing(crashed: str) -> None:
    noted = Path(f"{crashed}-anchor").read_bytes()
    os.truncate(f"{crashed}-wal", HEADER + PAGE)
    for other in (b"", noted[:-1], bytes([noted[0] ^ 1]) + noted[1:]):
        Path(f"{crashed}-anchor").write_bytes(other)
        assert find_fault(crashed) is None


async def test_a_database_that_is_closed_leaves_no_anchor(path: str) -> None:
    async with await open_database(path) as database:
        await SqliteBackend(database).sync()
        assert is_there(f"{path}-anchor")
    assert not is_there(f"{path}-anchor")
