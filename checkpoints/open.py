"""The choice between SQLite and PostgreSQL, by the name of the database."""

from collections.abc import Callable

from segue.core.environment import foreign_scheme, is_server, need_extra
from segue.core.errors import DatabaseUnavailable
from segue.core.notifications import Receivers

from .storage import Storage


async def open_storage(
    url: str, receivers: Receivers | None = None, clock: Callable[[], float] | None = None
) -> Storage:
    """Open the database that `url` names: a `postgresql://` URL, or a SQLite file's path, `file:` URI or `:memory:`.

    `receivers` are told what becomes of tasks, which `clock` dates.

    Raises:
        MissingExtra, DatabaseUnavailable, DatabaseTooNew: saying what to do.
    """
    if is_server(url):
        need_extra("A PostgreSQL database", "postgres", "psycopg", "langgraph.checkpoint.postgres", "procrastinate")
        from .postgres.backend import open_postgres

        return Storage(await open_postgres(url), receivers, clock)
    if scheme := foreign_scheme(url):
        raise DatabaseUnavailable(
            "A database named {scheme}://… cannot be opened: name a SQLite file, or postgresql://USER@HOST/NAME.",
            scheme=scheme,
        )
    from .sqlite.backend import open_sqlite

    return Storage(await open_sqlite(url), receivers, clock)
