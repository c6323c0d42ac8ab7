"""The database of PostgreSQL: what a server refuses, lost connections, upgrades, damaged state."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import segue
from segue.checkpoints.leases import Lease, Renewal
from segue.checkpoints.postgres import database as postgres_database
from segue.checkpoints.postgres import state
from segue.checkpoints.postgres.database import PostgresDatabase, open_database
from segue.checkpoints.postgres.state import PostgresConnection
from segue.core.errors import (
    DamagedCheckpoint,
    DatabaseTooNew,
    DatabaseUnavailable,
    InvalidMessage,
    StorageError,
    ThreadBusy,
)
from segue.prompts.catalogue import error_text
from tests.modes import agent_that
from tests.polling import SECONDS, until
from tests.postgres import Cluster

from .worlds import World, note_the_turn, world

SECRET = "s3cret/?&"


async def refused(url: str) -> str:
    """The sentence in English, after a look at the Chinese one."""
    with pytest.raises(StorageError) as caught:
        async with await open_database(url):
            pass
    sentence, chinese = str(caught.value), error_text(caught.value, "zh")
    assert SECRET not in sentence + chinese and "s3cret" not in sentence + chinese
    assert "\n" not in sentence and sentence.endswith(".")
    assert any("\u4e00" <= character <= "\u9fff" for character in chinese.partition("：")[2]), chinese
    return sentence


@pytest.fixture
def guarded(postgres: Cluster, postgres_url: str) -> Iterator[str]:
    """The name of a role that has a password and the database of the test, which is asked for it."""
    database = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"CREATE ROLE guard LOGIN PASSWORD '{SECRET}'", f"GRANT CREATE ON DATABASE {database} TO guard")
    with postgres.rules("local all guard scram-sha-256"):
        yield database
    postgres.execute("DROP OWNED BY guard", database=database)
    postgres.execute("DROP OWNED BY guard", "DROP ROLE guard")


async def test_a_server_that_is_not_there() -> None:
    for url in ("postgresql://ann:s3cret@127.0.0.1:1/segue", "postgresql:///segue?host=/nowhere&password=s3cret"):
        assert "cannot be reached: check that the server runs" in await refused(url)


async def test_an_encryption_that_the_server_or_the_url_does_not_have() -> None:
    url = "postgresql://ann:s3cret@127.0.0.1:1/segue?sslmode=bogus"
    assert "cannot be reached with this encryption: check the URL's sslmode" in await refused(url)
    refusal = psycopg.OperationalError("connection failed: server does not support SSL, but SSL was required")
    assert "with this encryption" in str(state.refusal("segue", refusal))


@pytest.mark.parametrize("url", ["postgresql://ann:s3cret@[::1/segue", "postgresql://ann:s3cret@here/segue?odd=1"])
async def test_a_url_that_is_none(url: str) -> None:
    assert "write it as postgresql://USER@HOST:PORT/DATABASE" in await refused(url)


async def test_a_database_or_a_user_that_does_not_exist(postgres: Cluster) -> None:
    assert "does not exist: create it with `createdb`" in await refused(postgres.url("nowhere"))
    assert "refuses the password or the user" in await refused(postgres.url(user="nobody"))


async def test_a_wrong_password_and_the_right_one(postgres: Cluster, guarded: str) -> None:
    for password in ("", "s3cret"):
        assert "refuses the password or the user" in await refused(postgres.url(guarded, "guard", password))
    async with await open_database(postgres.url(guarded, "guard", SECRET)) as database:
        assert await Lease(database).acquire("s", "me") == 1
        assert "guard@" in database.url and "s3cret" not in database.url


async def test_a_user_without_rights(postgres: Cluster, guarded: str) -> None:
    postgres.execute(f"REVOKE CREATE ON DATABASE {guarded} FROM guard")
    assert "may not be used by this user: grant it CREATE" in await refused(postgres.url(guarded, "guard", SECRET))
    async with await open_database(postgres.url(guarded)):
        pass
    assert "may not be used by this user: grant it CREATE" in await refused(postgres.url(guarded, "guard", SECRET))


async def test_too_many_connections(postgres: Cluster, guarded: str) -> None:
    postgres.execute("ALTER ROLE guard CONNECTION LIMIT 0")
    assert "has no connection left" in await refused(postgres.url(guarded, "guard", SECRET))


async def test_a_database_that_is_read_only(postgres: Cluster, postgres_url: str) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "is read-only: name the primary server" in await refused(postgres_url)
    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    async with await open_database(postgres_url):
        pass
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    async with await open_database(postgres_url) as database:
        with pytest.raises(DatabaseUnavailable, match="is read-only"):
            await Lease(database).acquire("s", "me")
        postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


async def test_a_server_or_an_encoding_that_cannot_be_used(
    postgres: Cluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.execute("CREATE DATABASE odd ENCODING 'SQL_ASCII' TEMPLATE template0")
    assert "has the encoding SQL_ASCII and Segue needs UTF8" in await refused(postgres.url("odd"))
    postgres.execute("DROP DATABASE odd WITH (FORCE)")
    monkeypatch.setattr(state, "OLDEST_SERVER", 99)
    assert "and Segue needs 99 or newer: upgrade the server" in await refused(postgres_url)


async def test_a_database_of_a_newer_segue_or_of_another_program(postgres: Cluster, postgres_url: str) -> None:
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute("CREATE SCHEMA segue CREATE TABLE events (id INTEGER)", database=name)
    assert 'has a schema "segue" of another program' in await refused(postgres_url)
    postgres.execute("DROP SCHEMA segue CASCADE", database=name)
    async with await open_database(postgres_url):
        pass
    postgres.execute("UPDATE segue.schema_version SET version = 99", database=name)
    with pytest.raises(DatabaseTooNew, match="99"):
        await open_database(postgres_url)


async def test_an_empty_database_that_another_process_prepares_between_two_statements(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = PostgresConnection.execute

    def execute_before_another(self: PostgresConnection, statement: str, *values: Any) -> Any:
        cursor = execute(self, statement, *values)
        if "to_regclass" in statement:
            monkeypatch.undo()
            postgres_database._prepare(postgres_url)
        return cursor

    monkeypatch.setattr(PostgresConnection, "execute", execute_before_another)
    async with await open_database(postgres_url) as database:
        assert await Lease(database).acquire("s", "me") == 1


async def test_a_table_that_was_dropped(postgres: Cluster, postgres_url: str) -> None:
    async with await open_database(postgres_url) as database:
        with psycopg.connect(postgres_url) as connection:
            connection.execute("DROP TABLE segue.lease_queue")
        with pytest.raises(DatabaseUnavailable, match="lacks a part of Segue's schema"):
            await Lease(database).acquire("s", "me")


async def test_a_disk_that_is_full(postgres_url: str) -> None:
    async with await open_database(postgres_url) as database:

        def fill(connection: object) -> None:
            raise psycopg.errors.DiskFull("could not extend file: No space left on device")

        with pytest.raises(DatabaseUnavailable, match="is full: free some space on the server's disk"):
            await database.write(fill)
        assert await Lease(database).acquire("s", "me") == 1


async def test_text_that_the_server_cannot_store(postgres_url: str) -> None:
    async with await open_database(postgres_url) as database:
        with pytest.raises(InvalidMessage, match="NUL character"):
            await Lease(database).acquire("s\0", "me")


async def test_a_message_that_the_server_cannot_store_and_a_result_that_it_can(postgres_url: str) -> None:
    @segue.tool(read_only=True)
    def read() -> str:
        """Read a file."""
        return "a\0b"

    async with segue.open(postgres_url, agents=[agent_that("react", ("read", {}), tools=[read])]) as app:
        for given in ({"message": "a\0b"}, {"message": "a", "session_id": "s\0"}, {"message": "a", "user_id": "u\0"}):
            with pytest.raises(InvalidMessage, match=r"NUL character|session name"):
                await app.ask(**{"session_id": "s", "agent": "a", **given})
        task = await app.ask("go", agent="a", session_id="s")
        (call,) = (await app.tasks.trace(task.task_id)).calls
        assert (task.success, call.outcome) == (True, {"success": "a\0b"})


# Connections that are lost: nothing is stored twice, nothing that was stored is reported as lost.


_INSERT = "INSERT INTO lease_queue (thread_id, expires_at) VALUES (?, 0)"


@pytest.fixture
async def database(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    async with await open_database(postgres_url) as opened:
        yield opened


async def names(database: PostgresDatabase) -> list[str]:
    rows = await database.read(lambda db: db.execute("SELECT thread_id FROM lease_queue ORDER BY position").fetchall())
    return [row[0] for row in rows]


class Cut:
    """Cuts its connection once, at a moment of a transaction."""

    def __init__(self, database: PostgresDatabase, url: str) -> None:
        self.database = database
        self.url = url
        self.runs = 0

    def kill(self, connection: PostgresConnection) -> None:
        with psycopg.connect(self.url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.raw.info.backend_pid,))

    def inside(self, connection: PostgresConnection) -> int:
        """In the middle of it."""
        self.runs += 1
        connection.execute(_INSERT, ("first",))
        if self.runs == 1:
            self.kill(connection)
        connection.execute(_INSERT, ("last",))
        return self.runs


async def test_a_transaction_whose_connection_was_cut_is_carried_out_again(
    database: PostgresDatabase, postgres_url: str
) -> None:
    cut = Cut(database, postgres_url)
    assert await database.write(cut.inside) == 2
    assert await names(database) == ["first", "last"]


async def test_statements_that_are_sent_together_are_sent_again_too(
    database: PostgresDatabase, postgres_url: str
) -> None:
    cut = Cut(database, postgres_url)
    assert await database.submit(cut.inside, together=True) == 2
    assert await names(database) == ["first", "last"]


async def test_of_statements_that_are_sent_together_the_first_error_counts(database: PostgresDatabase) -> None:
    runs = 0

    def insert(connection: PostgresConnection) -> Any:
        nonlocal runs
        runs += 1
        for _ in range(2):
            connection.execute("INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES ('s', 'me', 1, 0)")
        return connection.execute("SELECT 1").fetchone()

    with pytest.raises(psycopg.errors.UniqueViolation):
        await database.submit(insert, together=True)
    assert runs == postgres_database.MOST_ROLLBACKS
    assert (
        await database.read(lambda db: db.execute("SELECT count(*) FROM leases WHERE thread_id = 's'").fetchone()[0])
        == 0
    )


async def test_a_task_is_locked_once_a_transaction(database: PostgresDatabase) -> None:
    def lock(connection: PostgresConnection) -> list[set[str]]:
        before = set(connection.locked)
        for _ in range(2):
            connection.lock_task("t")
        return [before, connection.locked.copy()]

    assert await database.write(lock) == await database.write(lock) == [set(), {"t"}]


class Commits:
    """A connection whose commit is carried out or not, and whose answer is lost in any case."""

    def __init__(self, raw: Any, *, carried_out: bool, url: str) -> None:
        self.raw, self.carried_out, self.url = raw, carried_out, url

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def execute(self, statement: bytes, *values: Any) -> Any:
        if statement != b"COMMIT":
            return self.raw.execute(statement, *values)
        if self.carried_out:
            self.raw.execute(statement)
        self.raw.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


@pytest.mark.parametrize("carried_out", [True, False])
async def test_a_commit_whose_answer_was_lost_takes_place_once(
    database: PostgresDatabase, postgres_url: str, carried_out: bool
) -> None:
    runs: list[int] = []

    def insert(connection: PostgresConnection) -> None:
        runs.append(1)
        connection.execute(_INSERT, ("only",))
        if len(runs) == 1:
            connection.raw = Commits(connection.raw, carried_out=carried_out, url=postgres_url)  # type: ignore[assignment]

    await database.write(insert)
    assert await names(database) == ["only"]
    assert len(runs) == (1 if carried_out else 2)


async def test_where_nobody_knows_how_it_ended_nothing_is_done_again(
    database: PostgresDatabase, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server took over: it knows nothing of the transaction."""
    monkeypatch.setattr(postgres_database, "_OUTCOME", b"SELECT pg_xact_status(CAST(%s AS xid8)), 'another timeline'")
    runs: list[str] = []

    def insert(name: str) -> Any:
        def work(connection: PostgresConnection) -> None:
            runs.append(name)
            connection.execute(_INSERT, (name,))
            if not isinstance(connection.raw, Commits):
                connection.raw = Commits(connection.raw, carried_out=True, url=postgres_url)  # type: ignore[assignment]

        return work

    gate = threading.Event()
    first = database.submit(lambda _: gate.wait(SECONDS))
    both = [database.submit(insert(name)) for name in ("a", "b")]
    gate.set()
    await first
    errors = await asyncio.gather(*both, return_exceptions=True)
    assert ["may or may not have been stored" in str(error) for error in errors] == [True, True]
    assert runs == ["a", "b"]
    assert await names(database) == ["a", "b"]


async def test_a_server_that_restarts_is_waited_for(postgres: Cluster, database: PostgresDatabase) -> None:
    lease, renewal = Lease(database), Renewal(database)
    fence = await lease.acquire("s", "me")
    assert renewal.renew({"s": fence}, 5) == set()
    await asyncio.to_thread(postgres.stop)
    waiting = database.submit(lambda db: db.execute(_INSERT, ("later",)).rowcount)
    reading = asyncio.ensure_future(lease.holder("s"))
    with pytest.raises(DatabaseUnavailable, match="cannot be reached"):
        await asyncio.to_thread(renewal.renew, {"s": fence}, 0.3)
    assert not waiting.done()
    await asyncio.to_thread(postgres.start)
    assert await waiting == 1
    assert await reading == "me"
    assert renewal.renew({"s": fence}, 5) == set()
    renewal.close()
    assert await names(database) == ["later"]


async def test_a_server_that_stays_away_is_an_error_once_it_was_waited_for(
    postgres: Cluster, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database._session, "_patience", 0.5)
    await asyncio.to_thread(postgres.stop)
    try:
        waiting = [database.submit(lambda db: db.execute(_INSERT, ("never",))) for _ in range(200)]
        errors = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)  # not 100 seconds
        assert all("cannot be reached" in str(error) for error in errors)
    finally:
        await asyncio.to_thread(postgres.start)
    assert await names(database) == []


async def test_a_lease_expires_by_the_servers_clock(database: PostgresDatabase) -> None:
    lease, renewal = Lease(database), Renewal(database)
    fence = await lease.acquire("s", "me")
    with pytest.raises(ThreadBusy):
        await lease.acquire("s", "you")
    assert await asyncio.to_thread(renewal.renew, {"s": fence}, 0.3) == set()
    renewal.close()

    async def is_free() -> bool:
        return await lease.holder("s") is None

    await until(is_free)
    assert await lease.acquire("s", "you") > fence


async def test_a_takeover_waits_for_what_the_former_owner_commits(
    database: PostgresDatabase, postgres_url: str
) -> None:
    """Between a look at the fence and the commit nobody takes the lease; a renewal goes on meanwhile."""
    from segue.checkpoints.leases import check_fence

    lease, renewal = Lease(database), Renewal(database)
    fence = await lease.acquire("s", "me", ttl=0.01)
    async with await open_database(postgres_url) as other:
        entered, gate = threading.Event(), threading.Event()

        def slow(connection: PostgresConnection) -> float:
            check_fence(connection, "s", fence)
            entered.set()
            gate.wait(SECONDS)
            return time.monotonic()

        writing = database.submit(slow)
        try:
            await asyncio.to_thread(entered.wait, SECONDS)
            assert await asyncio.to_thread(renewal.renew, {"s": fence}, 0.01) == set()
            await asyncio.sleep(0.05)  # longer than the lease lives
            taking = asyncio.ensure_future(Lease(other).acquire("s", "you"))
            await asyncio.sleep(0.3)
            assert not taking.done()
        finally:
            gate.set()
        assert await taking > fence
        assert await writing < time.monotonic()
    renewal.close()


async def test_changes_are_notified_after_their_commit(database: PostgresDatabase, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as listening:
        listening.execute("LISTEN segue")

        def change(connection: PostgresConnection) -> None:
            for _ in range(3):
                connection.notify("t1", "s")
            connection.notify("", "x" * 9000)

        await database.write(change)
        await database.write(lambda db: db.execute(_INSERT, ("quiet",)))
        told = await asyncio.to_thread(lambda: [each.payload for each in listening.notifies(timeout=0.5)])
    assert told == ['{"task": "t1", "thread": "s"}']


# Upgrades of a PostgreSQL database: its own tables, and those of the queue.


def name_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def test_a_script_after_the_baseline_upgrades_a_database_once_and_an_older_one_is_refused(
    postgres: Cluster, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_database(postgres_url):
        pass
    with monkeypatch.context() as later:
        later.setattr(state, "SCRIPTS", (*state.SCRIPTS, ("CREATE TABLE memories (text TEXT)",)))
        later.setattr(state, "SCHEMA_VERSION", state.SCHEMA_VERSION + 1)
        for _ in range(2):
            async with await open_database(postgres_url):
                pass
    postgres.execute("SELECT text FROM segue.memories", database=name_of(postgres_url))
    postgres.execute(f"UPDATE segue.schema_version SET version = {state.FIRST - 1}", database=name_of(postgres_url))
    with pytest.raises(DatabaseUnavailable, match="export its sessions"):
        await open_database(postgres_url)


async def test_later_migrations_of_the_queue_are_applied_once_and_a_newer_queue_is_refused(
    postgres: Cluster, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await open_database(postgres_url):
        pass
    folder = tmp_path / "procrastinate/sql/migrations"
    folder.mkdir(parents=True)
    (folder / state.FIRST_MIGRATION).touch()
    (folder / "99.00.00_01_pre_later.sql").write_text("ALTER TABLE procrastinate_jobs ADD COLUMN later text")
    with monkeypatch.context() as later:
        later.setattr(state, "distribution", lambda _: Later(tmp_path))
        for _ in range(2):
            async with await open_database(postgres_url):
                pass
    postgres.execute("SELECT later FROM segue.procrastinate_jobs", database=name_of(postgres_url))
    with pytest.raises(DatabaseUnavailable, match="queue of a newer procrastinate"):
        await open_database(postgres_url)


class Later:
    """A later procrastinate, as far as its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def locate_file(self, path: str) -> Path:
        return self._folder / path


# Damaged state on PostgreSQL: noticed when it is read, and recovered from.


NEWEST = "SELECT max(checkpoint_id) FROM checkpoints WHERE checkpoint_ns = ''"
OF_NEWEST = f"""
    (channel, version) IN (
        SELECT key, value FROM checkpoints, jsonb_each_text(checkpoint -> 'channel_versions')
        WHERE checkpoint_id = ({NEWEST})
    ) AND channel = 'result'
"""
DAMAGES = {
    "a value is missing": f"DELETE FROM checkpoint_blobs WHERE {OF_NEWEST}",
    "a value has changed": f"UPDATE checkpoint_blobs SET blob = '\\x00'::bytea WHERE {OF_NEWEST}",
    "its parent is missing": f"""DELETE FROM checkpoints WHERE checkpoint_id = (
        SELECT parent_checkpoint_id FROM checkpoints WHERE checkpoint_id = ({NEWEST})
    )""",
    "its key has changed": f"UPDATE checkpoints SET parent_checkpoint_id = NULL WHERE checkpoint_id = ({NEWEST})",
}


@pytest.fixture
async def here(postgres_url: str) -> AsyncIterator[World]:
    async with world(postgres_url) as opened:
        yield opened


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_damage_is_noticed_and_the_session_goes_on(here: World, postgres_url: str, damage: str) -> None:
    here.register("a", note_the_turn, "react")
    for turn in (1, 2):
        await here.run(f"turn {turn}", agent="a")
    with psycopg.connect(postgres_url, options="-c search_path=segue") as connection:
        assert connection.execute(damage.encode()).rowcount == 1
    with pytest.raises(DamagedCheckpoint):
        await here.app.history("s")
    assert (await here.app.sessions.recover("s")).dropped > 0
    here.effects.clear()
    for task in await here.app.tasks.list(session_id="s", limit=1):
        if task.status == "paused":
            await here.app.resume(task.task_id)
    assert here.noted == []
    assert (await here.app.ask("turn 3", session_id="s", agent="a"))["answer"] == "done 3"
