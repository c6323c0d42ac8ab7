"""A database of a PostgreSQL server, the connections to it, and its backend."""

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from segue.core.environment import without_password
from segue.core.errors import DatabaseUnavailable, DatabaseUnreachable
from segue.core.records import Json, Unowned, Worker
from segue.core.task import ACTIVE, TaskStatus

from ..database import Connections
from ..leases import POSTGRES_LEASE_SECONDS
from ..ports import Connection, NotRepeatable, sql_list
from ..rows import next_version
from .state import (
    CHANNEL,
    NONE,
    QUEUED_TASK,
    SCHEMA,
    SCHEMA_VERSION,
    STREAMS,
    PostgresConnection,
    Statements,
    check_server,
    connect,
    conninfo,
    prepare,
    queues_of,
    refusal,
    translated,
    version_of,
)

if TYPE_CHECKING:
    from procrastinate import App


T = TypeVar("T")

PATIENCE = 20.0
"""Seconds to wait for a server that is gone: it may be restarting."""
RETRY_EVERY = 0.1
MOST_ROLLBACKS = 5
"""How often transactions are carried out that the server rolls back because of others."""

# The transaction's id, and the server's timeline: another server that takes over begins another one.
_BEGIN = b"BEGIN; SELECT CAST(pg_current_xact_id() AS text), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
_OUTCOME = b"SELECT pg_xact_status(CAST(%s AS xid8)), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
# Who loses a race for a new row finds that row when it tries again.
_TRANSIENT = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable, errors.UniqueViolation)


class _RolledBack(Exception):
    """The server rolled a transaction back, for a reason that may not come again."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


class PostgresSession:
    """A connection to a server. It waits up to `patience` seconds for one that was there and is gone.

    `path` names the server in messages; `settings` are the server's, of this connection alone.
    """

    def __init__(self, url: str, path: str, settings: Mapping[str, str] = NONE, *, patience: float = PATIENCE) -> None:
        self._url = url
        self._path = path
        self._patience = patience
        self._settings = settings
        self._connection: PostgresConnection | None = None
        self._gone_since: float | None = None
        self._transaction = ("", "")
        self.deltas: Callable[[], Sequence[str]] = tuple
        """Gives what is to be sent of streams, before what was committed after it."""

    def begin(self, *, synced: bool, waiting: bool = True) -> None:
        """Begin a transaction, which is always synced."""
        with translated(self._path):
            connection = self._opened()
            try:
                self._begin(connection)
            except psycopg.Error:
                lost = connection.is_lost()
                self.close()
                if not lost:
                    raise
                self._begin(self._opened())

    def commit(self, works: Sequence[Callable[[PostgresConnection], Any]]) -> list[Any]:
        """Carry out `works` in the transaction that was begun, and commit it.

        They are carried out again where the server rolled them back because of others, or was stopped meanwhile.
        """
        with translated(self._path):
            for _ in range(MOST_ROLLBACKS - 1):
                try:
                    return self._commit(works)
                except _RolledBack:
                    self._restart()
            try:
                return self._commit(works)
            except _RolledBack as failure:
                raise failure.error from failure

    def announce(self) -> None:
        """Notify other processes of deltas, and of what was committed; who misses that looks again."""
        deltas = self.deltas()
        if deltas or self._connection is not None:
            with contextlib.suppress(psycopg.Error, DatabaseUnavailable):
                self._opened().announce(deltas)

    def read(self, work: Callable[[PostgresConnection], T]) -> T:
        """Carry out `work`, which only reads; again if the connection was lost."""
        with translated(self._path):
            connection = self._opened()
            try:
                return self._read(connection, work)
            except psycopg.OperationalError:
                if not connection.is_lost():
                    raise
            return self._read(self._opened(), work)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                connection.close()

    def _read(self, connection: PostgresConnection, work: Callable[[PostgresConnection], T]) -> T:
        try:
            return work(connection)
        finally:
            if connection.raw.info.transaction_status is not TransactionStatus.IDLE:
                self.close()

    def _begin(self, connection: PostgresConnection) -> None:
        cursor = connection.raw.execute(_BEGIN)
        cursor.nextset()
        self._transaction = cursor.fetchone() or ("", "")
        connection.notices.clear()
        connection.locked.clear()

    def _restart(self) -> None:
        try:
            self.begin(synced=True)
        except DatabaseUnavailable as error:
            raise NotRepeatable(error) from error

    def _commit(self, works: Sequence[Callable[[PostgresConnection], Any]]) -> list[Any]:
        connection = self._connection
        if connection is None or connection.is_lost():
            raise _RolledBack(psycopg.OperationalError("The connection was lost."))
        try:
            results = [work(connection) for work in works]
        except BaseException as error:
            self._roll_back(connection)
            if isinstance(error, psycopg.Error) and (connection.is_lost() or isinstance(error, _TRANSIENT)):
                raise _RolledBack(error) from error
            raise
        try:
            ended = connection.raw.execute(b"COMMIT").statusmessage
        except psycopg.OperationalError as error:
            if not connection.is_lost():
                self._roll_back(connection)
                raise
            self.close()
            self._require_commit(error)
            return results
        if ended != "COMMIT":
            raise psycopg.InternalError("The transaction was rolled back, since an error in it was passed over.")
        return results

    def _roll_back(self, connection: PostgresConnection) -> None:
        try:
            connection.raw.execute(b"ROLLBACK")
        except psycopg.Error:
            self.close()

    def _require_commit(self, error: psycopg.OperationalError) -> None:
        """Find out how a transaction ended whose connection was lost while it was committed."""
        outcome = "unknown"
        with contextlib.suppress(psycopg.Error, DatabaseUnavailable):
            outcome = self._outcome()
        if outcome == "aborted":
            raise _RolledBack(error)
        if outcome != "committed":
            raise NotRepeatable(
                DatabaseUnavailable(
                    "The connection to the database {path} was lost during a write, which may or may not "
                    "have been stored: resume the task.",
                    path=self._path,
                )
            ) from error

    def _outcome(self) -> str:
        number, timeline = self._transaction
        deadline = time.monotonic() + self._patience
        while True:
            found = self._opened().raw.execute(_OUTCOME, (number,)).fetchone()
            outcome = str(found[0]) if found and found[1] == timeline else "unknown"
            if outcome != "in progress" or time.monotonic() > deadline:
                return outcome
            time.sleep(RETRY_EVERY)

    def _opened(self) -> PostgresConnection:
        """The connection, opened where there is none."""
        if self._connection is not None and self._connection.is_lost():
            self.close()
        while self._connection is None:
            try:
                self._connection = connect(self._url, self._settings)
            except psycopg.OperationalError as error:
                self._wait(error)
        self._gone_since = None
        return self._connection

    def _wait(self, error: psycopg.OperationalError) -> None:
        """Wait a moment for a server that is gone; once it was away for too long, every try fails at once."""
        now = time.monotonic()
        self._gone_since = self._gone_since or now
        refused = refusal(self._path, error)
        if not isinstance(refused, DatabaseUnreachable) or now - self._gone_since > self._patience:
            raise refused from error
        time.sleep(RETRY_EVERY)


_LIMITS = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "5s"}
"""A process that stands still in a transaction keeps its locks so long: then the server rolls it back."""
_WRITING = {**_LIMITS, "synchronous_commit": "on"}
_READING = {"default_transaction_read_only": "on"}


class PostgresDatabase(Connections[PostgresConnection]):
    """An open database; `address` is what it was opened with, `url` what messages name."""

    def __init__(self, address: str) -> None:
        self.address = address
        path = without_password(address)
        self._writing = PostgresSession(address, path, _WRITING)
        self._statements = Statements()
        super().__init__(
            path,
            self._writing,
            partial(PostgresSession, address, path, _READING),
            partial(_renewing, address, path),
            psycopg.Error,
        )

    def statements(self, _: str) -> Statements:
        return self._statements.for_write()

    def next_version(self, current: str | None) -> str:
        """Another one in each branch, since values are stored by their versions."""
        return next_version(current, secrets.token_hex(4))

    def relay(self, deltas: Callable[[], Sequence[str]]) -> Callable[[], None]:
        """Send what `deltas` gives before each notification of a change; returns what sends it at once."""
        self._writing.deltas = deltas
        return self.announce

    @contextlib.asynccontextmanager
    async def listing(self) -> AsyncIterator[PostgresConnection]:
        await self.settle()
        with translated(self.url):
            opened = await asyncio.to_thread(connect, self.address, _READING)
            with contextlib.closing(opened):
                yield opened


def _renewing(address: str, path: str, timeout: float) -> PostgresSession:
    """A connection for renewals, which a crash of the server may undo: the fence holds."""
    settings = {**_LIMITS, "lock_timeout": f"{int(timeout * 1000)}ms", "synchronous_commit": "off"}
    return PostgresSession(address, path, settings, patience=timeout)


async def open_database(address: str) -> PostgresDatabase:
    """Open the database that a URL names, creating or upgrading its tables."""
    await asyncio.to_thread(_prepare, address)
    return PostgresDatabase(address)


def _prepare(address: str) -> None:
    with reached(address) as (connection, path):
        prepare(connection, path)


@contextlib.contextmanager
def reached(address: str) -> Iterator[tuple[PostgresConnection, str]]:
    """A connection to the database that a URL names, and the database's name in messages."""
    path = without_password(address)
    try:
        connection = connect(address)
    except psycopg.ProgrammingError:  # which quotes the URL, with its password
        raise DatabaseUnavailable(
            "The database's URL is not valid: write it as postgresql://USER@HOST:PORT/DATABASE, with special "
            "characters as %XX."
        ) from None
    except psycopg.OperationalError as error:
        raise refusal(path, error) from error
    with contextlib.closing(connection), translated(path):
        yield connection, path


# A PostgreSQL database as a backend of the storage.

LIVE = 5.0
"""Seconds after which a worker that did not report counts as gone."""
KEPT = 3600.0
"""Seconds after which its row is deleted."""
POLL = 1.0
"""Seconds between two looks into the queue where no notification came."""
CONNECTIONS = 4
"""Connections of a worker's queue at most."""
QUIET = 30.0
"""Seconds without a notification after which the connection is tried."""
RECONNECT = 0.5
CLEAN_EVERY = 30.0
"""Seconds between two looks for the jobs of processes that are gone; their tasks are found by their leases."""

_REPORT = """
    INSERT INTO workers (owner, agents, modes, upgrades, concurrency, running, started_at, seen_at)
    VALUES (:owner, :agents, :modes, :upgrades, :concurrency, :running, :now, :now)
    ON CONFLICT (owner) DO UPDATE SET agents = excluded.agents, modes = excluded.modes, upgrades = excluded.upgrades,
        running = excluded.running, seen_at = excluded.seen_at
"""
_FORGET = "DELETE FROM workers WHERE seen_at < ?"
_LEAVE = "DELETE FROM workers WHERE owner = ?"
_LIST = "SELECT * FROM workers WHERE seen_at > ? ORDER BY started_at, owner"
_QUEUED = "SELECT 1 FROM procrastinate_jobs WHERE queueing_lock = ? AND status = 'todo'"
# A task of a version that no worker has is taken by one that upgrades it, and by nobody where it keeps its version.
# A job wakes somebody in the queue of the task's version, or where no worker has that, in one of this worker's.
_UNOWNED = f"""
    SELECT task_id, thread_id AS session_id, user_id, agent_id, agent_version, on_upgrade, mode,
        coalesce(owner, '') AS owner,
        coalesce(expires_at, 0) <= :now AS expired, orphaned
    FROM tasks LEFT JOIN leases USING (thread_id) CROSS JOIN LATERAL (
        SELECT agent_version IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM workers WHERE seen_at > :live AND agents::jsonb -> agent_id @> to_jsonb(agent_version)
        ) AS orphaned
    ) AS version
    WHERE status IN ({sql_list(ACTIVE)}) AND called_by IS NULL AND (CAST(:queues AS text[]) IS NULL OR (
        (NOT orphaned OR CASE on_upgrade WHEN 'pin' THEN false ELSE
            agent_id = ANY(CAST(:agents AS text[]))
            AND (on_upgrade IS NOT NULL OR agent_id = ANY(CAST(:upgrades AS text[])))
        END)
        AND NOT EXISTS (
            SELECT 1 FROM procrastinate_jobs WHERE queueing_lock = task_id AND procrastinate_jobs.status = 'todo'
                AND CASE WHEN orphaned THEN queue_name = ANY(CAST(:queues AS text[]))
                    ELSE queue_name = segue_queue(agent_id || coalesce(':' || agent_version, '')) END
        )
    ))
    ORDER BY position
"""
_LISTS = ("agents", "modes", "upgrades")
"""The columns of a worker that hold JSON."""
_WAKE = "SELECT segue_wake(?, ?, ?, true)"


class QueueWorkers:
    """The processes that run the tasks of a database, woken by procrastinate's queue."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._conninfo = conninfo(database.address)

    async def report(self, worker: Worker) -> None:
        lists = {name: json.dumps(getattr(worker, name)) for name in _LISTS}
        values = {**worker.json(), **lists}

        def store(connection: Connection) -> None:
            now = connection.now()
            connection.execute(_REPORT, {**values, "now": now})
            connection.execute(_FORGET, (now - KEPT,))

        await self._database.write(store)

    async def leave(self, owner: str) -> None:
        await self._database.write(lambda connection: connection.execute(_LEAVE, (owner,)))

    async def list(self) -> list[Worker]:
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, (connection.now() - LIVE,)))
        return [Worker(**{**row, **{name: json.loads(row[name]) for name in _LISTS}}) for row in rows]

    async def is_queued(self, task_id: str) -> bool:
        return bool(await self._database.read(lambda connection: connection.fetched(_QUEUED, (task_id,))))

    async def unowned(self, worker: Worker | None = None) -> Iterable[Unowned]:
        mine: Json = {"queues": None, "agents": [], "upgrades": []}
        if worker is not None:
            mine = {"queues": queues_of(worker.agents), "agents": [*worker.agents], "upgrades": worker.upgrades}

        def read(connection: Connection) -> Any:
            now = connection.now()
            return connection.fetched(_UNOWNED, {"now": now, "live": now - LIVE, **mine})

        return [Unowned(**row) for row in await self._database.read(read)]

    async def wake(self, tasks: Iterable[Unowned]) -> None:
        woken = [(task.task_id, task.agent_id, task.agent_version) for task in tasks]

        def wake(connection: Connection) -> None:
            for values in woken:
                connection.execute(_WAKE, values)

        if woken:
            await self._database.write(wake)

    async def serve(
        self, agents: Mapping[str, Collection[str]], concurrency: int, run: Callable[[str], Awaitable[None]]
    ) -> None:
        from procrastinate import App, PsycopgConnector
        from procrastinate.exceptions import ConnectorException
        from psycopg_pool import PoolTimeout

        queue = App(connector=PsycopgConnector(conninfo=self._conninfo, min_size=1, max_size=CONNECTIONS))

        @queue.task(name=QUEUED_TASK)
        async def run_task(task_id: str, tenant: str = "") -> None:
            await run(task_id)

        try:
            async with queue.open_async():
                cleaning = asyncio.create_task(_clean(queue), name="stalled jobs")
                try:
                    await queue.run_worker_async(
                        queues=queues_of(agents),
                        concurrency=concurrency,
                        fetch_job_polling_interval=POLL,
                        shutdown_graceful_timeout=0,  # the task continues; what waits for its end is cancelled
                        delete_jobs="always",
                        install_signal_handlers=False,
                    )
                finally:
                    cleaning.cancel()
                    await asyncio.gather(cleaning, return_exceptions=True)
        except (ConnectorException, psycopg.Error, PoolTimeout) as error:
            reason = " ".join(str(error.__cause__ or error).split())
            raise DatabaseUnavailable("The queue of the workers cannot be used: {error}", error=reason) from error

    def relay(self, deltas: Callable[[], Sequence[str]]) -> Callable[[], None]:
        return self._database.relay(deltas)

    async def listen(
        self, tell: Callable[..., None], hear: Callable[[Json], None], connected: Callable[[bool], None]
    ) -> None:
        while True:
            with suppress(psycopg.Error):
                async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
                    await connection.execute(f"LISTEN {CHANNEL}; LISTEN {STREAMS}".encode())
                    connected(True)
                    await _pass_on(connection, tell, hear)
            connected(False)
            await asyncio.sleep(RECONNECT)


async def _pass_on(
    connection: psycopg.AsyncConnection[Any], tell: Callable[..., None], hear: Callable[[Json], None]
) -> None:
    while True:
        async for notification in connection.notifies(timeout=QUIET):
            message = _read(notification.payload)
            if notification.channel == STREAMS:
                hear(message)
            elif message:
                tell(*(each for each in message.values() if isinstance(each, str)))
        await connection.execute("SELECT 1")


def _read(payload: str) -> Json:
    """What a notification says; nothing where it is not a JSON object, which others may send."""
    try:
        message = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


async def _clean(queue: "App") -> None:
    """Delete the jobs that processes which are gone had fetched."""
    from procrastinate.exceptions import ConnectorException
    from procrastinate.jobs import Status

    while True:
        with suppress(ConnectorException):
            for job in await queue.job_manager.get_stalled_jobs(task_name=QUEUED_TASK):
                await queue.job_manager.finish_job_by_id_async(job.id or 0, Status.FAILED, delete_job=True)
        await asyncio.sleep(CLEAN_EVERY)


_TOUCH = "UPDATE schema_version SET version = version"
# A row that is there is written again, so that a transaction which is about to delete it is waited for.
_STORE = """
    INSERT INTO files (digest, content) VALUES (?, ?) ON CONFLICT (digest) DO UPDATE SET content = excluded.content
"""
_READ = "SELECT content FROM files WHERE digest = ?"
_LOCK = "SELECT digest FROM files WHERE digest = ? FOR UPDATE"
_DELETE = "DELETE FROM files WHERE digest = ?"


class PostgresBackend:
    """An open PostgreSQL database."""

    schema_version: ClassVar[int] = SCHEMA_VERSION
    lease_ttl: ClassVar[float] = POSTGRES_LEASE_SECONDS

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.contents = FileTable(database)
        self.workers = QueueWorkers(database)

    def touch(self, connection: Connection) -> None:
        """Write a row as it is."""
        connection.execute(_TOUCH)

    async def sync(self) -> None:
        """Wait for what was submitted: every commit is synced."""
        await self.database.write(lambda _: None)

    async def compact(self) -> None:
        """Do nothing: the server's autovacuum reuses the room of deleted rows."""

    async def shrink(self) -> None:
        """Do nothing, as `compact`."""

    async def copy_aside(self, now: float) -> str:
        """Copy nothing: a server has backups of its own."""
        return ""


class FileTable:
    """The contents of messages' files in a table, by their digests."""

    place = "the table files"

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def store(self, digest: str, content: bytes) -> None:
        """Store a content; one that is there is replaced."""
        await self._database.write(lambda connection: connection.execute(_STORE, (digest, content)))

    async def read(self, digest: str) -> bytes | None:
        row = await self._database.read(lambda connection: connection.execute(_READ, (digest,)).fetchone())
        return bytes(row["content"]) if row else None

    def lock(self, connection: Connection, digest: str) -> None:
        connection.execute(_LOCK, (digest,))

    def delete(self, connection: Connection, digest: str) -> None:
        connection.execute(_DELETE, (digest,))


async def open_postgres(url: str) -> PostgresBackend:
    """Open the database that a PostgreSQL URL names."""
    return PostgresBackend(await open_database(url))


_SERVER = """
    SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS size,
        (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
        current_setting('max_connections') AS most_connections,
        pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only,
        has_database_privilege(current_database(), 'CREATE') AS can_create
"""
_LACKING = f"""
    SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}' AND NOT (
        has_schema_privilege(schemaname, 'USAGE')
        AND has_table_privilege(format('%I.%I', schemaname, tablename), 'SELECT')
        AND has_table_privilege(format('%I.%I', schemaname, tablename), 'INSERT')
        AND has_table_privilege(format('%I.%I', schemaname, tablename), 'UPDATE')
        AND has_table_privilege(format('%I.%I', schemaname, tablename), 'DELETE')
    ) ORDER BY tablename
"""
_LIVE = f"""
    SELECT (SELECT count(*) FROM leases WHERE expires_at > :now) AS leases,
        (SELECT count(*) FROM workers WHERE seen_at > :now - :live) AS workers,
        (SELECT count(*) FROM tasks WHERE status = '{TaskStatus.PENDING}') AS pending
"""
_MIXED = """
    SELECT agent.key FROM workers, json_each_text(agents::json) AS agent WHERE seen_at > ?
    GROUP BY agent.key HAVING count(DISTINCT agent.value) > 1 ORDER BY agent.key
"""


@dataclass(frozen=True)
class ServerReport:
    """What was found: `schema` is 0 where nothing was stored yet, `lacking` the tables that the user may not use.

    `pending` tasks have not begun; of the agents `mixed` the workers have different versions.
    """

    path: str
    version: str
    schema: int
    is_current: bool
    size: int
    connections: int
    most_connections: int
    leases: int
    workers: int
    pending: int
    mixed: tuple[str, ...]
    read_only: bool
    can_create: bool
    lacking: tuple[str, ...]


def check_database(address: str) -> ServerReport:
    """Look at the database that a URL names."""
    with reached(address) as (connection, path):
        check_server(connection, path)
        row = connection.execute(_SERVER).fetchone()
        lacking = tuple(name for (name,) in connection.execute(_LACKING))
        schema = 0 if lacking else version_of(connection, path)
        live = {"leases": 0, "workers": 0, "pending": 0}
        mixed: tuple[str, ...] = ()
        if schema == SCHEMA_VERSION:
            now = connection.now()
            found = connection.execute(_LIVE, {"now": now, "live": LIVE}).fetchone()
            live = {name: found[name] for name in live}
            mixed = tuple(name for (name,) in connection.execute(_MIXED, (now - LIVE,)))
    return ServerReport(
        path=path,
        version=row["version"],
        schema=schema,
        is_current=schema == SCHEMA_VERSION,
        size=row["size"],
        connections=row["connections"],
        most_connections=int(row["most_connections"]),
        **live,
        mixed=mixed,
        read_only=row["read_only"],
        can_create=row["can_create"],
        lacking=lacking,
    )
