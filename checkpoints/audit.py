"""The audit log of a database: entries are appended in the transaction of what they tell of."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from segue.core.actor import SEGUE
from segue.core.audit import BEGUN, SHORT, Act, AuditEntry, AuditHead, Seal, entry_digest, row_digest
from segue.core.records import Json, Moment, Record, Task, names_of, readable
from segue.core.spend import KINDS, Owner, Scope
from segue.core.task import ACTIVE, TaskStatus

from .ports import Connection, Database, Row, insert_into

LOCK = "segue audit"
"""Whoever appends to the log waits for whoever did so before."""
_MOVED = {TaskStatus.RUNNING: "resumed"}
SEALED: str = "sealed"
"""The action of entries for what was stored before the log was begun."""

_IS_KEPT = "SELECT 1 FROM audit LIMIT 1"
# In SQLite a damaged position may be no number: it sorts after every number, and is left out.
_HEAD = f"SELECT position, digest FROM audit WHERE position < {2**62} ORDER BY position DESC LIMIT 1"
_INSERT = insert_into("audit", names_of(AuditEntry))
_TASK = "SELECT * FROM tasks WHERE task_id = ?"
_EVENTS = "SELECT * FROM events WHERE task_id = ? ORDER BY seq"
_CALLS = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? ORDER BY position"
_OF_THREAD = "SELECT task_id FROM tasks WHERE thread_id = ? ORDER BY position"
_CHOICES = "SELECT * FROM sessions WHERE thread_id = ?"
_LIST = """
    SELECT * FROM audit
    WHERE (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
        AND (:thread_id = '' OR thread_id = :thread_id) AND (:user_id = '' OR user_id = :user_id)
        AND (:actor = '' OR actor = :actor) AND (:action = '' OR action = :action) AND position < :before
    ORDER BY position DESC LIMIT :limit
"""
_HAS = "SELECT 1 FROM audit WHERE action = ? LIMIT 1"
_UNSEALED_THREADS = f"""
    SELECT thread_id FROM tasks UNION SELECT thread_id FROM sessions
    EXCEPT SELECT thread_id FROM audit WHERE action = '{SEALED}' ORDER BY thread_id
"""


NOTHING: Final[Mapping[str, str]] = {}


def is_kept(connection: Connection) -> bool:
    """Whether the database has an audit log."""
    return connection.execute(_IS_KEPT).fetchone() is not None


def record(
    connection: Connection,
    act: Act,
    thread_id: str = "",
    task_id: str = "",
    *,
    whole: bool = False,
    chosen: bool = False,
    opens: bool = False,
    kept: Mapping[str, str] = NOTHING,
) -> None:
    """Append an entry in the transaction that does what it tells of; nothing where the database has no audit log.

    It seals the rows of its task as they are then, with `whole` those of each task of the thread and what is chosen for
    it, with `chosen` that alone. A task that a process works on is not sealed, and with `opens` none is: its rows
    change until they are sealed again. `kept` names by table whose rows are sealed, as `kept_rows` takes it; a task's
    entry seals the limits that its calls count for, too.
    """
    if not is_kept(connection):
        return
    names = [task_id] if task_id else []
    if whole:  # a task that is damaged names no rows
        names = [row[0] for row in connection.fetched(_OF_THREAD, (thread_id,)) if isinstance(row[0], str)]
    found = {name: _seal(connection, name, opens=opens) for name in names}
    seals: Json = {"tasks": {name: seal for name, seal in found.items() if seal is not _MISSING}} if found else {}
    if whole or chosen:
        seals["choice"] = choice_digest(connection, thread_id)
    owners = {**kept, **(dict.fromkeys(("permissions", "shares"), thread_id) if whole else {})}
    rows = {table: kept_rows(connection, table, owner) for table, owner in owners.items()}
    for name in found:
        if used := _spend_of(connection, name):
            rows["spend"] = {**rows.get("spend", {}), **used}
    if rows:
        seals |= {"rows": rows, "of": owners}
    _append(connection, act, thread_id, task_id, seals)


def record_moved(connection: Connection, act: Act | None, old: Task, new: Task) -> None:
    """Append an entry where somebody changed a task, or it stopped or went on: not for what it does under way."""
    if act or old.status not in ACTIVE or new.status not in ACTIVE:
        by_itself = _MOVED.get(new.status, str(new.status)) if new.status != old.status else "changed"
        record(connection, act or Act(by_itself, actor=SEGUE), new.session_id, new.task_id)


def reseal(connection: Connection, action: str, thread_id: str, task_id: str) -> None:
    """Seal a task again whose rows were changed while no process works on it."""
    rows = connection.fetched(_TASK, (task_id,))
    if rows and rows[0]["status"] not in ACTIVE:
        record(connection, Act(action, actor=SEGUE), thread_id, task_id)


KEPT = {
    "permissions": ("thread_id", "agent_id", "tool", "scope", "task_id"),
    "shares": ("share_id",),
    "schedules": ("schedule_id",),
    "spend": ("scope",),
}
"""The tables of which single rows are sealed, and the columns that say which one."""
OWNER = {"permissions": "thread_id", "shares": "thread_id", "schedules": "schedule_id", "spend": "scope"}
"""The column by which their rows are sealed together."""
UNDER_WAY: Final = 3600.0
"""Seconds that the call of a model may take."""
_PENDING = "SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0) FROM spend_calls WHERE created_at > ?"
_UNSEALED = {"schedules": ("problem",), "spend": ("tokens", "cost")}
_OF_KEPT = "SELECT * FROM {} WHERE {} = ?"
_ALL_KEPT = "SELECT * FROM {}"


def kept_rows(connection: Connection, table: str, owner: str | None = None) -> Json:
    """The seals of a table's rows by their keys: those of an `owner`, by the column of `OWNER`, or all.

    A seal is [digest, owner, thread, further values]: of a link when it expires, of a limit what is used at least.
    """
    if owner is None:
        rows = connection.fetched(_ALL_KEPT.format(table))
    else:
        rows = connection.fetched(_OF_KEPT.format(table, OWNER[table]), (owner,))
    pending = _pending(connection) if table == "spend" and rows else (0, 0)
    return {key_of(table, row): _kept(table, row, pending) for row in map(dict, rows)}


def key_of(table: str, row: Mapping[str, Any]) -> str:
    """What a sealed row is called."""
    return " ".join(str(row[name]) for name in KEPT[table])


def _kept(table: str, row: Mapping[str, Any], pending: tuple[int, int]) -> list[Any]:
    digest = row_digest(row, _UNSEALED.get(table, ()))[: 2 * SHORT]
    seal = [digest, row[OWNER[table]], row.get("thread_id", "")]
    if table == "shares":
        seal.append(_number(row["expires_at"]))
    if table == "spend":
        seal += [_number(row["tokens"]) - pending[0], _number(row["cost"]) - pending[1]]
    return seal


def _number(value: object) -> int | float:
    """What a damaged column is sealed as where a number is."""
    return value if isinstance(value, int | float) else 0


def _pending(connection: Connection) -> tuple[int, int]:
    """What is reserved for calls that may be under way, and may be counted less."""
    row = connection.execute(_PENDING, (time.time() - UNDER_WAY,)).fetchone()
    return int(row[0]), int(row[1])


@dataclass(frozen=True, kw_only=True)
class _Spender(Record):
    """Whose calls a task's are."""

    task_id: str
    thread_id: str
    user_id: str
    agent_id: str
    updated_at: Moment


def _spend_of(connection: Connection, task_id: str) -> Json:
    """The seals of the limits that a task's calls may count for: the days around its last change are looked up."""
    tasks = readable(_Spender, connection.fetched(_TASK, (task_id,)))
    if not tasks or not connection.fetched("SELECT 1 FROM spend LIMIT 1"):
        return {}
    task, owner = tasks[0], Owner.of(tasks[0].thread_id, tasks[0].user_id)
    days = [str((datetime.fromtimestamp(task.updated_at, UTC) + timedelta(days=days)).date()) for days in (-1, 0, 1)]
    names = {"task": task_id, "session": task.thread_id, "user": task.user_id, "agent": task.agent_id}
    keys = [
        Scope(kind, names.get(kind, ""), tenant, day).key
        for tenant in {"", owner.tenant}
        for kind in KINDS
        for day in ("", *days)
    ]
    places = ", ".join("?" for _ in keys)
    rows = connection.fetched(f"SELECT * FROM spend WHERE scope IN ({places})", tuple(keys))
    pending = _pending(connection) if rows else (0, 0)
    return {key_of("spend", row): _kept("spend", row, pending) for row in map(dict, rows)}


_MISSING = object()


def _seal(connection: Connection, task_id: str, *, opens: bool) -> Any:
    """The form of a task's seal; None where it is none, as its rows go on to change."""
    rows = connection.fetched(_TASK, (task_id,))
    if not rows:
        return _MISSING
    return None if opens or rows[0]["status"] in ACTIVE else seal_of(connection, rows[0]).json()


def seal_of(connection: Connection, task: Row) -> Seal:
    """The seal of a task as its rows are now."""
    events = connection.fetched(_EVENTS, (task["task_id"],))
    calls = connection.fetched(_CALLS, (task["thread_id"], task["task_id"]))
    return Seal.of(dict(task), [*map(dict, events)], [*map(dict, calls)])


def choice_digest(connection: Connection, thread_id: str) -> str | None:
    """The digest of what was chosen for a thread; None where nothing was."""
    rows = connection.fetched(_CHOICES, (thread_id,))
    return row_digest(dict(rows[0])) if rows else None


def _head(connection: Connection) -> AuditHead | None:
    """The newest entry, whatever its digest is."""
    rows = connection.fetched(_HEAD)
    return AuditHead(rows[0]["position"], str(rows[0]["digest"] or "")) if rows else None


def _append(connection: Connection, act: Act, thread_id: str, task_id: str, seals: Json) -> None:
    connection.lock(LOCK)
    head = _head(connection)
    task = connection.fetched(_TASK, (task_id,)) if task_id else []
    entry: dict[str, Any] = {
        "position": head.position + 1 if head else 1,
        "moment": time.time(),
        "actor": act.actor,
        "action": act.action,
        "thread_id": thread_id,
        "task_id": task_id,
        "user_id": str(task[0]["user_id"]) if task else "",
        "details": json.dumps(act.details, sort_keys=True, default=repr),
        "seals": json.dumps(seals, separators=(",", ":"), default=repr),
        "previous": head.digest if head else "",
    }
    connection.execute(_INSERT, {**entry, "digest": entry_digest(entry)})


class Audit:
    """The audit log of a database, which has one once it was begun."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def begin(self) -> None:
        """Begin the log where there is none, and seal what is stored already."""
        if await self._database.read(lambda connection: connection.fetched(_HAS, (BEGUN,))):
            return
        first = Act("enabled")
        await self._database.write(lambda db: None if is_kept(db) else _append(db, first, "", "", {}), synced=True)
        threads = await self._database.read(lambda connection: connection.fetched(_UNSEALED_THREADS))
        names = [row["thread_id"] for row in threads if isinstance(row["thread_id"], str)]
        for name in names:
            await self.record(Act(SEALED, actor=SEGUE), name, whole=True)
        begun = Act(BEGUN, {"sessions": len(names)}, SEGUE)

        def finish(connection: Connection) -> None:
            if not connection.fetched(_HAS, (BEGUN,)):
                rows = {table: kept_rows(connection, table) for table in KEPT}
                _append(connection, begun, "", "", {"rows": rows})

        await self._database.write(finish)

    async def is_kept(self) -> bool:
        """Whether the database has an audit log."""
        return await self._database.read(is_kept)

    async def head(self) -> AuditHead | None:
        """The newest entry; None where there is no log."""
        return await self._database.read(_head)

    async def record(
        self, act: Act, thread_id: str = "", task_id: str = "", *, whole: bool = False, opens: bool = False
    ) -> None:
        """As `record`, for an act that changes nothing itself, or is about to."""
        if await self.is_kept():
            await self._database.write(
                lambda connection: record(connection, act, thread_id, task_id, whole=whole, opens=opens), synced=True
            )

    async def list(
        self,
        *,
        prefix: str = "",
        thread_id: str = "",
        user_id: str = "",
        actor: str = "",
        action: str = "",
        before: int = 2**62,
        limit: int = 50,
    ) -> list[AuditEntry]:
        """The entries, newest first, before a position: of the tasks of a user, or what somebody did."""
        about = {"prefix": prefix, "thread_id": thread_id, "user_id": user_id, "actor": actor, "action": action}
        values = {**about, "before": before, "limit": limit}
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, values))
        return readable(AuditEntry, rows)
