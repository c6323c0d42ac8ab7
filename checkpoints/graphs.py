"""What LangGraph's server API stores: assistants, threads, runs, crons and items, and the events of runs."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from segue.core.graph_objects import GraphEvent, GraphObject
from segue.core.records import Json, from_row, readable, to_row

from .leases import check_fence
from .ports import ALL, Connection, Database, insert_into
from .rows import copy_thread, delete_rows

T = TypeVar("T")

LEDGER = "langgraph:"
"""Before the ids of the threads of graphs in the ledger."""

_COLUMNS = ("kind", "object_id", "owner", "thread_id", "status", "created_at", "updated_at", "body")
_ADD = f"{insert_into('graph_objects', _COLUMNS)} ON CONFLICT (kind, object_id) DO NOTHING"
_PUT = """
    UPDATE graph_objects SET thread_id = :thread_id, status = :status, updated_at = :updated_at, body = :body
    WHERE kind = :kind AND object_id = :object_id
"""
_GET = "SELECT * FROM graph_objects WHERE kind = ? AND object_id = ?"
_OF_OWNER = "SELECT * FROM graph_objects WHERE kind = :kind AND owner = :owner ORDER BY created_at DESC, object_id DESC"
_OF_THREAD = "SELECT * FROM graph_objects WHERE kind = ? AND thread_id = ? ORDER BY created_at, object_id"
_OF_STATUS = "SELECT * FROM graph_objects WHERE kind = ? AND status = ? ORDER BY created_at, object_id"
_IDS = "SELECT object_id FROM graph_objects WHERE kind = ? AND object_id >= ? AND object_id < ?"
_STARTING = """
    SELECT * FROM graph_objects WHERE kind = ? AND object_id >= ? AND object_id < ?
    ORDER BY updated_at DESC, object_id LIMIT ? OFFSET ?
"""
_HIGHEST = "\U0010ffff"
"""After every other character, by bytes in UTF-8."""
_DELETE = "DELETE FROM graph_objects WHERE kind = ? AND object_id = ?"
_DELETE_THREAD = "DELETE FROM graph_objects WHERE thread_id = ? AND kind IN ('thread', 'run', 'cron')"
_DELETE_CALLS = "DELETE FROM calls WHERE thread_id = ?"
_IS_SESSION = "SELECT 1 FROM tasks WHERE thread_id = ? LIMIT 1"
_LAST = "SELECT coalesce(max(seq), 0) AS seq FROM graph_events WHERE thread_id = ?"
_APPEND = "INSERT INTO graph_events (thread_id, seq, run_id, event) VALUES (?, ?, ?, ?)"
_EVENTS = """
    SELECT * FROM graph_events WHERE thread_id = :thread AND seq > :after AND (:run = '' OR run_id = :run)
    ORDER BY seq LIMIT :most
"""
_DROP_EVENTS = "DELETE FROM graph_events WHERE thread_id = ? AND (? = '' OR run_id = ?)"
_DROP_RUNS = f"""
    DELETE FROM graph_events WHERE thread_id = :thread_id AND run_id IN (
        SELECT run_id FROM graph_events WHERE thread_id = :thread_id
        GROUP BY run_id ORDER BY max(seq) DESC LIMIT {ALL} OFFSET :kept
    )
"""


class GraphRows:
    """The rows, in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def check_fence(self, thread_id: str, fence: int) -> None:
        """Make sure that no other process took the thread."""
        check_fence(self._connection, thread_id, fence)

    def lock(self, object_id: str) -> None:
        """Let other transactions that change a thread's runs or events, or an assistant, wait for the end of this."""
        self._connection.lock(f"graph thread {object_id}")

    def get(self, kind: str, object_id: str) -> GraphObject | None:
        rows = self._connection.fetched(_GET, (kind, object_id))
        return from_row(GraphObject, rows[0]) if rows else None

    def of_owner(self, kind: str, owner: str) -> Sequence[GraphObject]:
        """The newest first, without those that cannot be read."""
        return readable(GraphObject, self._connection.fetched(_OF_OWNER, {"kind": kind, "owner": owner}))

    def of_thread(self, kind: str, thread_id: str) -> Sequence[GraphObject]:
        """The oldest first, without those that cannot be read."""
        return readable(GraphObject, self._connection.fetched(_OF_THREAD, (kind, thread_id)))

    def of_status(self, kind: str, *statuses: str) -> Sequence[GraphObject]:
        """Those of all tenants, the oldest first of each status."""
        return [
            each
            for status in statuses
            for each in readable(GraphObject, self._connection.fetched(_OF_STATUS, (kind, status)))
        ]

    def starting(self, kind: str, prefix: str, most: int = ALL, offset: int = 0) -> Sequence[GraphObject]:
        """Those whose ids begin so, the last changed first, without those that cannot be read."""
        values = (kind, prefix, prefix + _HIGHEST, most, min(offset, ALL))
        return readable(GraphObject, self._connection.fetched(_STARTING, values))

    def ids_starting(self, kind: str, prefix: str) -> Sequence[str]:
        """The ids that begin so, in no order."""
        rows = self._connection.fetched(_IDS, (kind, prefix, prefix + _HIGHEST))
        return [row["object_id"] for row in rows]

    def add(self, added: GraphObject) -> bool:
        """Store what is new; False where its id is taken."""
        return self._connection.execute(_ADD, to_row(GraphObject, vars(added))).rowcount == 1

    def put(self, changed: GraphObject) -> bool:
        """Store a change; False where it was deleted."""
        return self._connection.execute(_PUT, to_row(GraphObject, vars(changed))).rowcount == 1

    def delete(self, kind: str, object_id: str) -> bool:
        return self._connection.execute(_DELETE, (kind, object_id)).rowcount == 1

    def is_session(self, thread_id: str) -> bool:
        """Whether the id is the one of a session of Segue."""
        return self._connection.execute(_IS_SESSION, (thread_id,)).fetchone() is not None

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its runs, events and checkpoints."""
        self._connection.execute(_DELETE_THREAD, (thread_id,))
        self._connection.execute(_DELETE_CALLS, (f"{LEDGER}{thread_id}",))
        self.drop_events(thread_id)
        delete_rows(self._connection, thread_id)

    def copy_state(self, source: str, target: str) -> None:
        """Copy the checkpoints of a thread to one that has none."""
        copy_thread(self._connection, source, target)

    def last_event(self, thread_id: str) -> int:
        """The number of the newest event; 0 where there is none."""
        return int(self._connection.execute(_LAST, (thread_id,)).fetchone()["seq"])

    def append(self, thread_id: str, run_id: str, events: Iterable[Json]) -> int:
        """Store events under the next numbers, and return the last one."""
        self.lock(thread_id)
        last = self.last_event(thread_id)
        for event in events:
            last += 1
            self._connection.execute(_APPEND, (thread_id, last, run_id, json.dumps(event)))
        self._connection.notify("", thread_id)
        return last

    def events(self, thread_id: str, after: int = 0, most: int = ALL, *, run_id: str = "") -> Sequence[GraphEvent]:
        """The events after a number, of all runs or one; the first that cannot be read raises."""
        chosen = {"thread": thread_id, "after": after, "most": most, "run": run_id}
        return [from_row(GraphEvent, row) for row in self._connection.fetched(_EVENTS, chosen)]

    def drop_events(self, thread_id: str, run_id: str = "") -> None:
        """Delete the events of a run, or all of a thread."""
        self._connection.execute(_DROP_EVENTS, (thread_id, run_id, run_id))

    def drop_runs(self, thread_id: str, kept: int) -> None:
        """Delete the events of all runs of a thread but the last, also of those that are not there any more."""
        self._connection.execute(_DROP_RUNS, {"thread_id": thread_id, "kept": kept})


class GraphTables:
    """The tables of a database."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def read(self, work: Callable[[GraphRows], T]) -> T:
        """Carry out `work`, which only reads."""
        return await self._database.read(lambda connection: work(GraphRows(connection)))

    async def write(self, work: Callable[[GraphRows], T], *, brief: bool = False) -> T:
        """Carry out `work` as one transaction."""
        return await self._database.write(lambda connection: work(GraphRows(connection)), brief=brief)
