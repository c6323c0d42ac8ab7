"""Segue's own tables and their rows, in SQL that every backend understands but for the types that it fills in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from segue.core.audit import AuditEntry
from segue.core.graph_objects import GraphEvent, GraphObject
from segue.core.notifications import Notification
from segue.core.records import (
    Call,
    Json,
    KnownRequest,
    Name,
    Permission,
    Preference,
    Record,
    SentEvent,
    Session,
    Share,
    StoredEvent,
    Task,
    Webhook,
    call_checksum,
    damaged,
    described,
    listed_faults,
    names_of,
    read,
)
from segue.core.schedules import Schedule
from segue.core.timeline import Branch

from .files import StoredUpload
from .habits import StoredHabits
from .leases import StoredLease
from .ports import Connection, insert_into
from .search import index_task
from .spend import ScopeUse, StoredCall

# Damage in the rows of tasks, events, calls and sessions, which a recovery repairs, and of the other tables.

ORDERED = {"tasks": "position", "calls": "position", "events": "task_id, seq"}
"""The tables whose rows have an order, and the columns that say which."""


def stored_rows(connection: Connection, table: str, thread_id: str) -> list[Json]:
    """The rows of a thread in a table, in the order in which they were stored."""
    statement = f"SELECT * FROM {table} WHERE thread_id = ? ORDER BY {ORDERED.get(table, 'thread_id')}"
    return [dict(row) for row in connection.fetched(statement, (thread_id,))]


def insert_row(connection: Connection, table: str, row: Json) -> None:
    """Store a row; its place among the others is the last. That of a call gets its checksum, a task can be found."""
    stored: dict[str, Any] = {name: value for name, value in row.items() if name != "position"}
    if table == "calls":
        stored["checksum"] = call_checksum(stored)
    inserted = connection.execute(f"{insert_into(table, tuple(stored))} RETURNING *", stored).fetchone()
    if table == "tasks":
        index_task(connection, inserted)


RECOVERED: Mapping[str, type[Task | StoredEvent | Call | Session]] = {
    "tasks": Task,
    "events": StoredEvent,
    "calls": Call,
    "sessions": Session,
}
"""The tables whose damaged rows a recovery repairs."""
_READ_FROM = {"tasks": "tasks", "events": "event_log", "calls": "calls", "sessions": "sessions"}
_ORDER = {"tasks": "position", "events": "task_id, seq", "calls": "position", "sessions": "thread_id"}
# A row whose session cannot be read any more is found by the other rows of its task.
_OF_SESSION = {
    "tasks": """thread_id = :thread OR task_id IN (
        SELECT task_id FROM events WHERE thread_id = :thread UNION SELECT task_id FROM calls WHERE thread_id = :thread
    )""",
    "events": "thread_id = :thread OR task_id IN (SELECT task_id FROM tasks WHERE thread_id = :thread)",
    "calls": "thread_id = :thread OR task_id IN (SELECT task_id FROM tasks WHERE thread_id = :thread)",
    "sessions": "thread_id = :thread",
}
# Calls that lost their thread's id are found by a scan only.
_QUICKLY = {**_OF_SESSION, "calls": "thread_id = :thread"}
_SESSION = """
    SELECT thread_id FROM tasks WHERE task_id = :task
    UNION ALL SELECT thread_id FROM events WHERE task_id = :task
    UNION ALL SELECT thread_id FROM calls WHERE task_id = :task
"""


@dataclass(frozen=True, kw_only=True)
class _Queued(Record):
    row_name = "place {position} in the queue of session {thread_id}"

    position: int
    thread_id: Name
    expires_at: float


@dataclass(frozen=True, kw_only=True)
class _Title(Record):
    row_name = "title of session {thread_id}"

    thread_id: Name
    title: str


BESIDE: Mapping[str, type[Record]] = {
    "leases": StoredLease,
    "lease_queue": _Queued,
    "preferences": Preference,
    "permissions": Permission,
    "titles": _Title,
    "branches": Branch,
    "shares": Share,
    "request_keys": KnownRequest,
    "webhooks": Webhook,
    "sent_events": SentEvent,
    "schedules": Schedule,
    "notifications": Notification,
    "uploads": StoredUpload,
    "spend": ScopeUse,
    "spend_calls": StoredCall,
    "audit": AuditEntry,
    "habits": StoredHabits,
    "graph_objects": GraphObject,
    "graph_events": GraphEvent,
}
"""The tables beside sessions, whose damaged rows a recovery does not repair."""
_STAY = ("audit", "graph_objects", "graph_events")
_RECORDS: Mapping[str, type] = {**RECOVERED, **BESIDE}
OF_SESSIONS = tuple(table for table, kind in _RECORDS.items() if "thread_id" in names_of(kind) and table not in _STAY)
"""The tables whose rows are deleted with their session: those whose record names one.

The audit log stays, and what LangGraph's API keeps goes with its thread, in `checkpoints/graphs.py`.
"""


@dataclass(frozen=True)
class ReadRow:
    """A row as it is stored, its columns that can be read, and what is wrong with the others."""

    table: str
    stored: Json
    values: Json
    faults: Mapping[str, str]

    @property
    def task_id(self) -> str:
        """Empty where it cannot be read."""
        return str(self.values.get("task_id", ""))

    @property
    def described(self) -> str:
        """Which row it is, and what is wrong with it."""
        kind = RECOVERED.get(self.table) or BESIDE[self.table]
        return f"{described(kind, self.values)} ({listed_faults(self.faults)})"


def rows_of(
    connection: Connection,
    table: str,
    thread_id: str | None = None,
    own: Mapping[str, str] = _OF_SESSION,
    *,
    damaged_only: bool = False,
) -> Iterator[ReadRow]:
    """The rows of a session in a table, or of all."""
    where = "" if thread_id is None else f"WHERE {own[table]}"
    statement = f"SELECT * FROM {_READ_FROM[table]} {where} ORDER BY {_ORDER[table]}"
    for row in connection.fetched(statement, {} if thread_id is None else {"thread": thread_id}):
        values, faults = read(RECOVERED[table], row)
        if damaged_only and not faults:
            continue
        if thread_id is not None and values.get("thread_id", thread_id) != thread_id:
            continue
        yield ReadRow(table, dict(row), values, faults)


def damaged_rows(connection: Connection, thread_id: str | None = None) -> list[ReadRow]:
    """The damaged ones among a session's rows, or among all."""
    return [row for table in RECOVERED for row in rows_of(connection, table, thread_id, damaged_only=True)]


def damaged_beside(connection: Connection) -> list[ReadRow]:
    """The damaged rows of the tables that no recovery repairs."""
    found: list[ReadRow] = []
    for table, kind in BESIDE.items():
        for row in map(dict, connection.fetched(f"SELECT * FROM {table}")):
            if row.get("is_stored") in (0, 1):
                row["is_stored"] = bool(row["is_stored"])
            values, faults = read(kind, row)
            if faults:
                found.append(ReadRow(table, row, values, faults))
    return found


def refuse_damaged(connection: Connection, thread_id: str) -> None:
    """Make sure that every row of a session can be read."""
    for table in RECOVERED:
        for row in rows_of(connection, table, thread_id, _QUICKLY, damaged_only=True):
            raise damaged(RECOVERED[table], {**row.values, "thread_id": thread_id}, row.faults)


def session_of(connection: Connection, row: ReadRow) -> str:
    """The session that a row belongs to; empty if it is unknown."""
    if "thread_id" in row.values:
        return str(row.values["thread_id"])
    found = (each[0] for each in connection.fetched(_SESSION, {"task": row.task_id}))
    return next((thread_id for thread_id in found if isinstance(thread_id, str) and thread_id), "")


# Segue's own tables, in SQL that every backend understands but for the types that it fills in.
#
# Each has a record with its columns (`RECOVERED`, `BESIDE`), by which its rows are read, checked, found damaged,
# deleted with their session (`OF_SESSIONS`) and copied to another database (`TABLES` of `export.py`). A new column or
# table is in all of that at once. Of tasks, events and calls the marks of the record's fields say what is changed,
# exported and imported; a fork copies their rows whole. What does not follow is listed at each table as "By hand".

_TABLES = (
    # The row of the thread '' holds the highest fence of the threads that were deleted. By hand: all statements, in
    # `leases.py`, and the fence that a copy in another database begins with, in `export.py`.
    """CREATE TABLE leases (
        thread_id {key} PRIMARY KEY,
        owner TEXT NOT NULL,
        fence BIGINT NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL
    )""",
    # Who waits for a thread's lease, first come first served. By hand: all statements, in `leases.py`.
    """CREATE TABLE lease_queue (
        position {serial},
        thread_id {key} NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL
    )""",
    "CREATE INDEX lease_queue_of_thread ON lease_queue (thread_id, position)",
    # `requested` is pause, stop or cancel where a person asked, `notes` a list of texts that steer the task, `answer`
    # what a person said to the question that it waited with: {"interrupt_id", "value"}. `copy_of` is the ended task
    # that this one repeats, in a thread that was forked or imported: it did not run here. `agents_file` is the absolute
    # path of the agents file that the task was started with, `attachments` a list of the files of its message, whose
    # contents are beside the database, `client_tools` the tools that its client carries out, `reply_options` what it
    # asks of the reply. `agent_version` is the version of its agent that it began with, or was last continued with.
    # `origin` is what sent the message, `bot_session` the thread of the agent that is a conversation's bot.
    # `on_upgrade` is what was chosen for the task, in place of its agent's, where that version is not there any more,
    # `offered_version` the one that a person is asked about. A task that waits for no person is `due` at a moment, or
    # once the event that it `awaited` is there. `asked_by` are the actors who asked for it, `decisions` what some
    # persons decided about its calls while others have to: {"interrupt_id", "given"}. `called_by` is the task of which
    # it is a call: its agent is a tool of the other one's. By hand: what a task begins with (`NewTask(…)` in
    # `src/segue/runtime/start.py`); what a fork sets anew (`_fork` and `_REOPEN` in `fork.py`) and what an import does
    # (`_task_rows` in `export.py`), beside the marks; `_ALWAYS` and `_AT_THE_END` of `src/segue/core/audit.py`;
    # `TaskView` of `src/segue/server/views.py`, which has some of the fields of the public form; `TaskRow` of the
    # page's `state/types.js`; and what lists and the terminal show of it.
    """CREATE TABLE tasks (
        position {position},
        task_id {key} NOT NULL UNIQUE,
        thread_id {key} NOT NULL,
        agent_id {key} NOT NULL,
        user_id {key} NOT NULL,
        mode TEXT NOT NULL,
        model TEXT NOT NULL,
        status TEXT NOT NULL,
        message TEXT NOT NULL,
        error TEXT,
        result TEXT,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL,
        requested TEXT,
        notes TEXT NOT NULL DEFAULT '[]',
        answer TEXT,
        rating INTEGER,
        copy_of {key},
        language TEXT,
        agents_file TEXT,
        attachments TEXT NOT NULL DEFAULT '[]',
        client_tools TEXT NOT NULL DEFAULT '[]',
        reply_options TEXT NOT NULL DEFAULT '{}',
        agent_version TEXT,
        origin TEXT NOT NULL,
        bot_session {key},
        called_by {key},
        on_upgrade TEXT,
        offered_version TEXT,
        due DOUBLE PRECISION,
        awaited {key},
        asked_by TEXT NOT NULL DEFAULT '[]',
        decisions TEXT
    )""",
    "CREATE INDEX tasks_due ON tasks (due) WHERE due IS NOT NULL",
    "CREATE INDEX tasks_of_thread ON tasks (thread_id, position)",
    "CREATE INDEX tasks_of_agent ON tasks (agent_id, position)",
    # What is counted for metrics: without the copies that forks and imports make.
    "CREATE INDEX tasks_of_status ON tasks (status, updated_at) WHERE copy_of IS NULL",
    "CREATE INDEX tasks_of_bot ON tasks (bot_session) WHERE bot_session IS NOT NULL",
    "CREATE INDEX tasks_called_by ON tasks (called_by) WHERE called_by IS NOT NULL",
    "CREATE INDEX tasks_with_files ON tasks (position) WHERE attachments <> '[]'",
    # `source` is NULL for the runner's own events, which are never put twice. With row ids: without them SQLite moves
    # the end of a row of more than a kilobyte to a page of its own. By hand: the insert in `events.py`; and the view
    # `event_log`, by which rows are read. The content of an event is its class in `core/events.py`, without a column.
    """CREATE TABLE events (
        task_id {key} NOT NULL,
        seq BIGINT NOT NULL,
        thread_id {key} NOT NULL,
        source {key},
        ordinal INTEGER NOT NULL,
        event TEXT NOT NULL,
        scope {key},
        idx INTEGER,
        PRIMARY KEY (task_id, seq),
        UNIQUE (thread_id, source, ordinal)
    )""",
    # A call that is `orphaned` is unknown to the state, since its thread went back to an older checkpoint. By hand: the
    # row that a call begins with (`_claim` in `ledger.py`), and `_SHOWN` of `core/records.py`, over which the checksum
    # is made, and which is the public form and `CallView` of `src/segue/server/views.py`.
    """CREATE TABLE calls (
        position {position},
        thread_id {key} NOT NULL,
        task_id {key} NOT NULL,
        scope {key} NOT NULL,
        idx INTEGER NOT NULL,
        name {key} NOT NULL,
        arguments TEXT NOT NULL,
        state TEXT NOT NULL,
        outcome TEXT,
        fence BIGINT NOT NULL,
        started_at DOUBLE PRECISION NOT NULL,
        finished_at DOUBLE PRECISION,
        orphaned INTEGER NOT NULL DEFAULT 0,
        checksum BIGINT NOT NULL,
        UNIQUE (thread_id, task_id, scope, idx)
    )""",
    # By hand: the insert, in `sessions.py`, and what a copy of a thread takes along (`_PREFERENCES` of `export.py`).
    "CREATE TABLE preferences (user_id {key} PRIMARY KEY, default_mode TEXT NOT NULL)",
    # What an endpoint with a model requires of a request, as a list of names. By hand: the insert, in `habits.py`.
    "CREATE TABLE habits (endpoint {key} PRIMARY KEY, names TEXT NOT NULL){clustered}",
    # What LangGraph's server API keeps: assistants, threads, runs, crons and items of the store. `owner` is the prefix
    # of the tenant, `body` JSON. By hand: `_COLUMNS`, `_PUT` and the deletion with a thread, in `graphs.py`.
    """CREATE TABLE graph_objects (
        kind {key} NOT NULL,
        object_id {key} NOT NULL,
        owner {key} NOT NULL,
        thread_id {key} NOT NULL,
        status {key} NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        updated_at DOUBLE PRECISION NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (kind, object_id)
    )""",
    "CREATE INDEX graph_objects_of_owner ON graph_objects (kind, owner, created_at)",
    "CREATE INDEX graph_objects_of_thread ON graph_objects (thread_id, kind) WHERE thread_id <> ''",
    "CREATE INDEX graph_objects_of_status ON graph_objects (kind, status) WHERE status <> ''",
    # The events of the runs of a thread, in the order in which their clients get them. By hand: all statements, in
    # `graphs.py`.
    """CREATE TABLE graph_events (
        thread_id {key} NOT NULL,
        seq BIGINT NOT NULL,
        run_id {key} NOT NULL,
        event TEXT NOT NULL,
        PRIMARY KEY (thread_id, seq)
    ){clustered}""",
    # A tool that runs without approval for the rest of a task or of its session; `task_id` is where it was allowed,
    # `version` the digest of the tool that was allowed. By hand: `PermissionView` of `src/segue/server/views.py`. A
    # fork and an exported document leave them out.
    """CREATE TABLE permissions (
        thread_id {key} NOT NULL,
        agent_id {key} NOT NULL,
        tool {key} NOT NULL,
        scope {key} NOT NULL,
        task_id {key} NOT NULL,
        granted_at DOUBLE PRECISION NOT NULL,
        version TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (thread_id, agent_id, tool, scope, task_id)
    ){clustered}""",
    # Which words are in a task's message or answer, by the task's `position`. Derived from the task whenever it is
    # stored, and without a record.
    """CREATE TABLE search_terms (
        term {key} NOT NULL,
        position BIGINT NOT NULL,
        PRIMARY KEY (term, position)
    ){clustered}""",
    # Names that persons gave to threads. By hand: the inserts, in `sessions.py`, `branches.py` and `fork.py`.
    "CREATE TABLE titles (thread_id {key} PRIMARY KEY, title TEXT NOT NULL){clustered}",
    # A thread that repeats another one, `parent`, up to a turn, and goes on differently from there: all branches of one
    # conversation have its first thread as their `root`.
    """CREATE TABLE branches (
        thread_id {key} PRIMARY KEY,
        root {key} NOT NULL,
        parent {key} NOT NULL,
        turn INTEGER NOT NULL
    ){clustered}""",
    "CREATE INDEX branches_of_root ON branches (root)",
    # Links that show what a thread held at `created_at`; the id is the SHA-256 of a secret token. By hand: the insert,
    # in `shares.py`.
    """CREATE TABLE shares (
        share_id {key} PRIMARY KEY,
        thread_id {key} NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        expires_at DOUBLE PRECISION NOT NULL
    ){clustered}""",
    "CREATE INDEX shares_of_thread ON shares (thread_id)",
    # What the request with a client's idempotency key did: it began a task, continued it after its event `seq`, or with
    # no task made a thread. `digest` is of the request, `about` what its client reads back of it. By hand: the insert
    # (`_ADD` in `tasks.py`).
    """CREATE TABLE request_keys (
        key {key} PRIMARY KEY,
        task_id {key} NOT NULL,
        thread_id {key} NOT NULL,
        seq BIGINT NOT NULL DEFAULT 0,
        digest TEXT NOT NULL DEFAULT '',
        about TEXT NOT NULL DEFAULT '{}',
        is_stored BIGINT NOT NULL DEFAULT 1
    ){clustered}""",
    "CREATE INDEX request_keys_of_task ON request_keys (task_id, seq)",
    "CREATE INDEX request_keys_unstored ON request_keys (thread_id) WHERE is_stored = 0",
    # What a person or a client chose for a thread, which may have no task yet. By hand: what a list of sessions shows
    # of it (`_COLUMNS` in `sessions.py`, `Thread` of `core/records.py`). An exported document leaves it out.
    """CREATE TABLE sessions (
        thread_id {key} PRIMARY KEY,
        agent_id TEXT NOT NULL,
        model TEXT NOT NULL,
        metadata TEXT NOT NULL,
        is_pinned BIGINT NOT NULL DEFAULT 0,
        is_archived BIGINT NOT NULL DEFAULT 0,
        created_at DOUBLE PRECISION NOT NULL
    )""",
    # Where a client wants it reported that a task stopped. By hand: the insert, in `outbox.py`.
    """CREATE TABLE webhooks (
        task_id {key} NOT NULL,
        webhook_id {key} NOT NULL,
        thread_id {key} NOT NULL,
        config TEXT NOT NULL,
        PRIMARY KEY (task_id, webhook_id)
    ){clustered}""",
    # Events that were sent to tasks, each until a task takes it; one of a `key` is sent once. By hand: the insert, in
    # `events.py`. A fork and an exported document leave them out.
    """CREATE TABLE sent_events (
        position {position},
        task_id {key} NOT NULL,
        thread_id {key} NOT NULL,
        name {key} NOT NULL,
        data TEXT NOT NULL,
        sent_at DOUBLE PRECISION NOT NULL,
        taken_at DOUBLE PRECISION,
        key {key} UNIQUE
    )""",
    "CREATE INDEX sent_events_of_task ON sent_events (task_id, name, position)",
    # Messages that are sent at `due`, and by the cron expression `every` again.
    """CREATE TABLE schedules (
        schedule_id {key} PRIMARY KEY,
        message TEXT NOT NULL,
        options TEXT NOT NULL,
        every TEXT,
        timezone TEXT NOT NULL,
        overlap TEXT NOT NULL,
        missed TEXT NOT NULL,
        is_active BIGINT NOT NULL,
        due DOUBLE PRECISION,
        last_task TEXT,
        problem TEXT,
        agents_file TEXT,
        created_at DOUBLE PRECISION NOT NULL,
        created_by TEXT
    )""",
    "CREATE INDEX schedules_due ON schedules (due) WHERE is_active = 1",
    # What receivers are still to be told; `due` is when it is tried, NULL where all attempts failed. By hand: both
    # inserts, in `outbox.py`.
    """CREATE TABLE notifications (
        notification_id {key} PRIMARY KEY,
        thread_id {key} NOT NULL,
        task_id {key} NOT NULL,
        receiver {key} NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        due DOUBLE PRECISION,
        attempts BIGINT NOT NULL DEFAULT 0,
        error TEXT
    ){clustered}""",
    "CREATE INDEX notifications_due ON notifications (due) WHERE due IS NOT NULL",
    # Contents of files that are kept though no task names them yet. By hand: the insert, in `files.py`.
    """CREATE TABLE uploads (
        upload_id {key} PRIMARY KEY,
        owner TEXT NOT NULL,
        digest {key} NOT NULL,
        attachment TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL
    )""",
    # What model calls used that have a limit together, in tokens and billionths of a US dollar, and the limits that a
    # person raised. `scope` is a digest of kind, name, tenant and day; those of a task or session go with their thread.
    # By hand: all statements, in `spend.py`.
    """CREATE TABLE spend (
        scope {key} PRIMARY KEY,
        kind {key} NOT NULL,
        name {key} NOT NULL,
        tenant {key} NOT NULL,
        day {key} NOT NULL,
        thread_id {key} NOT NULL,
        tokens BIGINT NOT NULL,
        cost BIGINT NOT NULL,
        raised_tokens BIGINT,
        raised_cost BIGINT
    ){clustered}""",
    "CREATE INDEX spend_of_kind ON spend (kind, tenant, day, cost)",
    "CREATE INDEX spend_of_thread ON spend (thread_id) WHERE thread_id <> ''",
    # The calls whose use is estimated: those that are made now, were interrupted, or that no endpoint counted.
    """CREATE TABLE spend_calls (
        call_id {key} PRIMARY KEY,
        thread_id {key} NOT NULL,
        task_id {key} NOT NULL,
        user_id {key} NOT NULL,
        agent_id {key} NOT NULL,
        model TEXT NOT NULL,
        created_at DOUBLE PRECISION NOT NULL,
        tokens BIGINT NOT NULL,
        cost BIGINT NOT NULL
    ){clustered}""",
    "CREATE INDEX spend_calls_by_time ON spend_calls (created_at)",
    # Who decided what, from 1 without a gap; empty where the database has no audit log. `seals` hold digests of rows as
    # they stood then, `previous` is the digest of the entry before.
    """CREATE TABLE audit (
        position BIGINT PRIMARY KEY,
        moment DOUBLE PRECISION NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        thread_id {key} NOT NULL,
        task_id {key} NOT NULL,
        user_id TEXT NOT NULL,
        details TEXT NOT NULL,
        seals TEXT NOT NULL,
        previous TEXT NOT NULL,
        digest TEXT NOT NULL
    )""",
    "CREATE INDEX audit_of_thread ON audit (thread_id, position)",
)


def tables(types: Mapping[str, str]) -> tuple[str, ...]:
    """The statements that create the tables.

    `types` are those of a `key`, a text that is compared and sorted by its bytes, of a `position`, a row's number, and
    of a `serial`, a number that no row has twice; `clustered` ends a table that is stored with its primary key.
    """
    return tuple(_filled(statement, types) for statement in _TABLES)


def _filled(statement: str, types: Mapping[str, str]) -> str:
    for name, type_ in types.items():
        statement = statement.replace(f"{{{name}}}", type_)
    return statement
