"""One connection to a PostgreSQL server, read and written as the tables do."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import psycopg
from psycopg import RawCursor
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import RowMaker

from ..ports import Cursor, Values
from .state import PostgresState

SCHEMA = "segue"
"""The schema of all tables, those of LangGraph and of the queue as well."""
CHANNEL = "segue"
"""The channel of the notifications."""
STREAMS = "segue_streams"
"""The channel of deltas."""

LONGEST_PAYLOAD = 7999
"""Bytes of a notification at most."""

NONE: Mapping[str, str] = {}

_DEFAULTS: Mapping[str, Any] = {
    "application_name": "segue",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Of the connection, unless the URL says otherwise: a network that is cut is noticed within seconds."""

# A string, a cast, or a value's place or name.
_TOKEN = re.compile(r"'(?:[^']|'')*'|::\w+|\?|:([a-z_]+)")
_NOW = b"SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
_NOTIFY = b"SELECT pg_notify(channel, payload) FROM unnest($1::text[], $2::text[]) AS told (channel, payload)"


class Row(tuple[Any, ...]):
    """A row that is read by the name of a column or by its index."""

    __slots__ = ()
    places: ClassVar[Mapping[str, int]] = {}

    def __getitem__(self, column: Any) -> Any:
        return tuple.__getitem__(self, self.places[column] if isinstance(column, str) else column)

    def keys(self) -> Sequence[str]:
        """The names of the columns."""
        return [*self.places]


class PostgresConnection:
    """A connection, in autocommit mode: transactions begin and end where they are written.

    `raw` is psycopg's, for statements of others. `told` is what is to be notified of once the transaction is committed.
    """

    for_update: ClassVar[str] = " FOR UPDATE"
    for_key_share: ClassVar[str] = " FOR KEY SHARE"
    duplicate: ClassVar[type[Exception]] = psycopg.IntegrityError

    def __init__(self, raw: "psycopg.Connection[Any]") -> None:
        self.raw = raw
        self.told: dict[str, None] = {}

    @property
    def state(self) -> PostgresState:
        """The state of threads in LangGraph's tables."""
        return PostgresState(self)

    def execute(self, statement: str, values: Values = ()) -> Cursor:
        """Carry out a statement; without values it is passed on as it is, and may be several."""
        cursor = RawCursor(self.raw, row_factory=_rows)
        if not values:
            return cursor.execute(statement.encode())
        query, names = _numbered(statement)
        return cursor.execute(query, [values[name] for name in names] if isinstance(values, Mapping) else values)

    def executemany(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Carry out a statement with the values of each row."""
        RawCursor(self.raw, row_factory=_rows).executemany(_numbered(statement)[0], rows)

    def fetched(self, statement: str, values: Values = ()) -> list[Any]:
        """The rows of a query."""
        return self.execute(statement, values).fetchall()

    def notify(self, task_id: str, thread_id: str) -> None:
        """Tell every process, once this transaction is committed, that a task changed or has new events."""
        payload = json.dumps({name: value for name, value in (("task", task_id), ("thread", thread_id)) if value})
        if len(payload) <= LONGEST_PAYLOAD:
            self.told[payload] = None

    def announce(self, deltas: Sequence[str] = ()) -> None:
        """Send deltas, which are ASCII, then the notifications.

        They have a transaction of their own: with them a commit waits for all others. Who misses one, since this
        process ended before, finds the change when it looks again.
        """
        sent = [delta for delta in deltas if len(delta) <= LONGEST_PAYLOAD]
        if sent or self.told:
            channels = [STREAMS] * len(sent) + [CHANNEL] * len(self.told)
            RawCursor(self.raw).execute(_NOTIFY, (channels, [*sent, *self.told]))
            self.told.clear()

    def now(self) -> float:
        """Unix time in seconds, of the server."""
        row = self.raw.execute(_NOW).fetchone()
        return float(row[0]) if row else 0.0

    def is_lost(self) -> bool:
        """Whether the server cannot be reached over it any more."""
        return self.raw.closed

    def close(self) -> None:
        """Close it, rolling a transaction back that is under way."""
        self.raw.close()


def connect(url: str, settings: Mapping[str, str] = NONE) -> PostgresConnection:
    """Open a connection; `settings` are the server's, of this connection alone."""
    return PostgresConnection(psycopg.connect(conninfo(url, settings), autocommit=True))


def conninfo(url: str, settings: Mapping[str, str] = NONE) -> str:
    """What psycopg connects with: the URL, Segue's schema and what makes a lost connection show."""
    given: dict[str, Any] = {**_DEFAULTS, **conninfo_to_dict(url)}
    options = [str(given.get("options") or "")]
    options += [f"-c {name}={value}" for name, value in {"search_path": SCHEMA, **settings}.items()]
    return make_conninfo(**{**given, "options": " ".join(options).strip()})


@lru_cache(maxsize=1024)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with numbered places, and the names of its values in their order."""
    names: dict[str, int] = {}
    places = 0

    def number(token: "re.Match[str]") -> str:
        nonlocal places
        if token[0] == "?":
            places += 1
            return f"${places}"
        return f"${names.setdefault(token[1], len(names) + 1)}" if token[1] else token[0]

    return _TOKEN.sub(number, statement).encode(), tuple(names)


@lru_cache(maxsize=1024)
def _kind(names: tuple[str, ...]) -> type[Row]:
    return type("Row", (Row,), {"__slots__": (), "places": {name: place for place, name in enumerate(names)}})


def _rows(cursor: "psycopg.Cursor[Any]") -> RowMaker[Row]:
    return _kind(tuple(column.name for column in cursor.description or ()))
