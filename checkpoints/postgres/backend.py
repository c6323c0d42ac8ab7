"""A PostgreSQL database as a backend of the storage."""

from dataclasses import dataclass
from typing import ClassVar

from ..ports import Connection
from .connection import SCHEMA
from .database import LEASE_TTL, PostgresDatabase, open_database, reached
from .schema import SCHEMA_VERSION, check_server, version_of
from .workers import LIVE, QueueWorkers

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
    lease_ttl: ClassVar[float] = LEASE_TTL

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
_LIVE = """
    SELECT (SELECT count(*) FROM leases WHERE expires_at > :now) AS leases,
        (SELECT count(*) FROM workers WHERE seen_at > :now - :live) AS workers,
        (SELECT count(*) FROM tasks WHERE status = 'pending') AS pending
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
    """Look at the database that a URL names.

    Raises:
        DatabaseUnavailable, DatabaseTooNew: it cannot be used.
    """
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
