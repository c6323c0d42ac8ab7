"""Connections that are lost: nothing is stored twice, nothing that was stored is reported as lost."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from segue.checkpoints.leases import Lease, Renewal
from segue.checkpoints.postgres import database as postgres_database
from segue.checkpoints.postgres.database import PostgresDatabase, open_database
from segue.checkpoints.postgres.state import PostgresConnection
from segue.core.errors import DatabaseUnavailable, ThreadBusy
from tests.polling import SECONDS, until
from tests.postgres import Cluster

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
