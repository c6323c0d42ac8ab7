"""Damaged threads: how they are found, verified and recovered."""

import json
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from segue.core.audit import (
    BEGUN,
    DELETED,
    RECOVERED,
    SHORT,
    Act,
    AuditHead,
    AuditReport,
    Finding,
    Kind,
    Seal,
    differences,
    entry_digest,
    row_digest,
)
from segue.core.calls import CallResult
from segue.core.context import Ids
from segue.core.errors import DamagedCheckpoint, NothingReadable, UnknownThread
from segue.core.events import ErrorRaised, Recovered, StateChanged
from segue.core.records import (
    Json,
    Recovery,
    Session,
    StoredEvent,
    Task,
    call_checksum,
    empty_values,
    listed_faults,
    names_of,
    to_row,
)
from segue.core.task import ACTIVE, ANYBODY, OPEN, TaskStatus
from segue.prompts.catalogue import Language, error_text, task_text, terminal_text

from .audit import KEPT, choice_digest, kept_rows, record
from .events import complete_events, event_row, insert_event
from .leases import check_fence
from .ports import CheckpointRow, Connection, Database, Place, Row, insert_into, set_columns
from .rows import RETAINED, WRITE_COLUMNS, Undecodable, check_form, decoding, seconds_of
from .saver import FencedSaver
from .schema import ReadRow, damaged_rows, rows_of
from .search import index_again

# The readable checkpoints of a damaged thread, in its own graph and in those that run inside it.

_IDS = "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id DESC"
_PLACE = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_METADATA = f"SELECT CAST(metadata AS TEXT) FROM checkpoints WHERE {_PLACE}"
_WRITES = f"SELECT {WRITE_COLUMNS}, value FROM writes WHERE {_PLACE}"

_CHAIN = """
    WITH RECURSIVE ancestors(id, parent) AS (
        SELECT checkpoint_id, parent_checkpoint_id FROM checkpoints
        WHERE thread_id = :thread_id AND checkpoint_ns = :ns AND checkpoint_id = :id
        UNION
        SELECT checkpoint_id, parent_checkpoint_id FROM ancestors CROSS JOIN checkpoints
        WHERE thread_id = :thread_id AND checkpoint_ns = :ns AND checkpoint_id = ancestors.parent
    )
    SELECT id, parent FROM ancestors
"""
_STRAYS = """
    SELECT count(*) FROM writes WHERE thread_id = :thread AND (checkpoint_ns, checkpoint_id) NOT IN (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread
    )
"""


Readable = Callable[[RunnableConfig], Any]
"""Reads the whole state at a checkpoint, asynchronously; raises DamagedCheckpoint where it cannot."""
Step = str | bytes | None
"""The name of a step as it is stored; bytes are none that can be read."""


def is_passed(ns: str, newer: Sequence[str]) -> bool:
    """Whether what the steps upon a checkpoint wrote may not be kept in whole, so many being newer."""
    return len(newer) >= (1 if ns else RETAINED)


@dataclass(frozen=True)
class NewestReadable:
    """The newest checkpoint of a namespace that can be read.

    `at` is Unix seconds, `parents` the checkpoints outside that it belongs to, `broken` the steps upon it whose writes
    cannot be read, `newer` the checkpoints that cannot, newest first, `unreadable` older ones that cannot and need not.
    Its graph has `passed` it where what its steps wrote is not kept in whole.
    """

    ns: str
    checkpoint_id: str
    at: float
    parents: Mapping[str, str]
    broken: Sequence[Step] = ()
    newer: Sequence[str] = ()
    unreadable: Sequence[str] = ()

    @property
    def passed(self) -> bool:
        return is_passed(self.ns, self.newer)

    @property
    def known_until(self) -> float:
        """When the last call may have begun that the state knows of, in Unix seconds.

        The writes on a checkpoint are complete when the next one is made, whose id contains the time.
        """
        try:
            return self.at if self.broken or self.passed or not self.newer else seconds_of(self.newer[-1])
        except ValueError:
            return self.at


@dataclass
class Damage:
    """What to remove so that the rest can be read, and the state of the thread after that."""

    outermost: NewestReadable
    """Of the thread's own graph."""
    checkpoints: list[tuple[str, str]] = field(default_factory=list)
    steps: list[tuple[str, str, Step]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    strays: int = 0
    """Results of steps upon checkpoints that are missing."""
    reason: str = ""
    unknown_since: float = math.inf
    """Unix seconds: calls that began then or later are not in the state any more."""
    back_to: float = math.inf
    """When the oldest state that something goes back to was saved; infinite where nothing does."""

    @property
    def created_at(self) -> float:
        return self.outermost.at if math.isinf(self.back_to) else self.back_to

    @property
    def size(self) -> int:
        return len(self.checkpoints) + len(self.steps) + len(self.unreadable) + self.strays

    def add(self, found: NewestReadable) -> None:
        self.checkpoints += [(found.ns, checkpoint_id) for checkpoint_id in found.newer]
        self.steps += [(found.ns, found.checkpoint_id, step) for step in found.broken]
        self.unreadable += [(found.ns, checkpoint_id) for checkpoint_id in found.unreadable]
        if found.broken or found.newer:
            self.unknown_since = min(self.unknown_since, found.known_until)
            self.back_to = min(self.back_to, found.at)

    def add_lost(self, ns: str, ids: Sequence[str]) -> None:
        """A graph inside of which nothing can be read: its node begins again."""
        self.checkpoints += [(ns, checkpoint_id) for checkpoint_id in ids]
        self.unknown_since = min(self.unknown_since, self.outermost.at)
        self.back_to = min(self.back_to, self.outermost.at)


class IntegrityCheck:
    """Looks for the newest checkpoints that can be read; changes nothing."""

    def __init__(self, database: Database[Any], saver: FencedSaver, readable: Readable, thread_id: str) -> None:
        self._database = database
        self._saver = saver
        self._readable = readable
        self._thread_id = thread_id
        self._reason = ""

    async def damage(self) -> Damage:
        """Find out what is damaged."""
        rows = await self._database.read(lambda connection: connection.execute(_IDS, (self._thread_id,)).fetchall())
        ids: dict[str, list[str]] = {}  # by namespace, newest first
        for ns, checkpoint_id in rows:
            ids.setdefault(ns, []).append(checkpoint_id)
        if "" not in ids:
            raise UnknownThread(self._thread_id)
        outermost = await self._newest("", ids.pop(""))
        if outermost is None:
            raise NothingReadable(self._thread_id, self._reason)
        damage = Damage(outermost)
        damage.add(outermost)
        current = {"": outermost.checkpoint_id}
        for ns in sorted(ids, key=lambda ns: ns.count("|")):
            found = await self._newest(ns, ids[ns])
            if found is None:
                damage.add_lost(ns, ids[ns])
            elif any(parent in damage.checkpoints for parent in found.parents.items()):
                damage.checkpoints += [(ns, checkpoint_id) for checkpoint_id in ids[ns]]
            elif all(current.get(parent) == checkpoint_id for parent, checkpoint_id in found.parents.items()):
                damage.add(found)
                current[ns] = found.checkpoint_id
            # The other namespaces belong to nodes that have ended: they are not read again.
        about = {"thread": self._thread_id}
        damage.strays = int(
            await self._database.read(lambda connection: connection.execute(_STRAYS, about).fetchone()[0])
        )
        if damage.strays:
            damage.unknown_since = min(damage.unknown_since, outermost.at)
        damage.reason = self._reason or ("a checkpoint is missing" if damage.strays else "")
        return damage

    async def _newest(self, ns: str, ids: Sequence[str]) -> NewestReadable | None:
        for place, checkpoint_id in enumerate(ids):
            try:
                return await self._inspect(ns, checkpoint_id, ids[:place])
            except DamagedCheckpoint as error:
                self._reason = self._reason or error.reason
        return None

    async def _inspect(self, ns: str, checkpoint_id: str, newer: Sequence[str]) -> NewestReadable:
        """Read a checkpoint with everything that its state is made of."""
        place = {"thread_id": self._thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
        config: RunnableConfig = {"configurable": place}
        key = (self._thread_id, ns, checkpoint_id)
        with decoding(self._thread_id):
            checkpoint = await self._saver.load_checkpoint(key)
            noted = await self._database.read(lambda connection: connection.execute(_METADATA, key).fetchone())
            found = CheckpointTuple(config, checkpoint, json.loads(noted[0]))
            check_form(found)
            at = _seconds(checkpoint["ts"])
            metadata: Mapping[str, Any] = found.metadata
            parents = metadata.get("parents", {})
            logs = metadata.get("counters_since_delta_snapshot", {}).keys() - checkpoint["channel_values"].keys()
        unreadable = await self._unreadable(config, key, sorted(logs))
        broken = await self._broken(key, passed=is_passed(ns, newer))
        if not (ns or unreadable or broken):
            await self._readable(config)
        return NewestReadable(ns, checkpoint_id, at, parents, broken, newer, unreadable)

    async def _unreadable(self, config: RunnableConfig, key: Place, logs: Sequence[str]) -> list[str]:
        """Read the logs at a checkpoint; return the damaged ones before it that they can be read without."""
        try:
            await self._saver.aget_delta_channel_history(config=config, channels=logs)
            return []
        except DamagedCheckpoint as error:
            unreadable = await self._unreadable_before(key, logs)
            self._reason = self._reason or error.reason
            return unreadable

    async def _unreadable_before(self, key: Place, logs: Collection[str]) -> list[str]:
        """The damaged checkpoints behind one that logs can be rebuilt without: they hold no beginning of a log."""
        _, ns, checkpoint_id = key
        values = {"thread_id": self._thread_id, "ns": ns, "id": checkpoint_id}
        chain = await self._database.read(lambda connection: connection.execute(_CHAIN, values).fetchall())
        left = set(logs)
        unreadable: list[str] = []
        for ancestor, _ in chain[1:]:
            if not left:
                return unreadable
            place = (self._thread_id, ns, ancestor)
            await self._check_logs(place, left)
            begun = await self._beginnings(place, left)
            if begun is None:
                unreadable.append(ancestor)
            else:
                left -= begun
        if left and chain[-1]["parent"] is not None:
            raise DamagedCheckpoint(self._thread_id, f"it builds on checkpoint {chain[-1]['parent']}, which is missing")
        return unreadable

    async def _beginnings(self, key: Place, logs: Collection[str]) -> set[str] | None:
        """The channels that a checkpoint holds the values of; None where it is damaged and no log begins in it."""
        try:
            with decoding(self._thread_id):
                checkpoint = await self._saver.load_checkpoint(key)
                return set(checkpoint["channel_values"])
        except DamagedCheckpoint:
            with decoding(self._thread_id):
                # LangGraph counts on from where a log was last stored whole: what is counted was not stored here.
                noted = await self._database.read(lambda connection: connection.execute(_METADATA, key).fetchone())
                counted = json.loads(noted[0])["counters_since_delta_snapshot"]
                if not counted.keys() >= set(logs):
                    raise Undecodable("a log begins in a checkpoint that cannot be read") from None
            return None

    async def _check_logs(self, key: Place, logs: Collection[str]) -> None:
        rows = await self._database.read(lambda connection: connection.fetched(_WRITES, key))
        with decoding(self._thread_id):
            for row in rows:
                if row["channel"] in logs:
                    await self._saver.load_write(row)

    async def _broken(self, key: Place, *, passed: bool) -> list[Step]:
        """The steps upon a checkpoint of which something cannot be read; one without a name is None.

        Of a checkpoint that its graph has `passed` all are: what they wrote is not kept in whole.
        """
        broken: set[Step] = set()
        rows = await self._database.read(lambda connection: connection.fetched(_WRITES, key))
        for row in rows:
            step = row["task_id"]
            try:
                with decoding(self._thread_id):
                    if passed:
                        raise Undecodable("a newer checkpoint cannot be read")
                    if not isinstance(step, str):
                        raise Undecodable("the name of a step is malformed")
                    await self._saver.load_write(row)
            except DamagedCheckpoint as error:
                self._reason = self._reason or error.reason
                broken.add(step)
        return sorted(broken, key=str)


def _seconds(written: str) -> float:
    try:
        return datetime.fromisoformat(written).timestamp()
    except ValueError as error:
        raise Undecodable("its time is none") from error


# Recovery of a damaged thread: back to the newest checkpoints that can be read, its damaged records replaced.
_DROP = (f"DELETE FROM checkpoints WHERE {_PLACE}", f"DELETE FROM writes WHERE {_PLACE}")
# What came from outside, a message or an update, has no path, and went into a checkpoint that is dropped.
_DROP_GIVEN = f"DELETE FROM writes WHERE {_PLACE} AND task_path = ''"
_DROP_STRAYS = """
    DELETE FROM writes WHERE thread_id = :thread AND (checkpoint_ns, checkpoint_id) NOT IN (
        SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = :thread
    )
"""
_KEPT = f"SELECT parent_checkpoint_id, CAST(metadata AS TEXT) FROM checkpoints WHERE {_PLACE}"
_LATEST = "SELECT task_id, status FROM tasks WHERE thread_id = ? ORDER BY position DESC LIMIT 1"
_ORPHAN = "UPDATE calls SET orphaned = 1 WHERE thread_id = ? AND task_id = ? AND started_at >= ?"
_AT = "SELECT * FROM tasks WHERE position = ?"
_PAUSE = "UPDATE tasks SET status = ?, updated_at = ? WHERE task_id = ?"


Found = Damage | NothingReadable | UnknownThread
"""What of a thread can be read, or why nothing can."""


async def recover(
    database: Database[Any],
    saver: FencedSaver,
    readable: Readable,
    thread_id: str,
    language: Language,
    copy_aside: Callable[[float], Awaitable[str]],
) -> Recovery:
    """Let a thread that `saver` holds go back to the newest state that can be read, and replace its damaged records.

    `copy_aside` is called first and returns the path of a copy; then everything is done in one transaction. Where
    nothing is damaged, nothing is dropped or copied. The thread's newest task can be resumed: calls that the state does
    not know of any more are found again in the ledger, by their name and arguments. Where there are checkpoints and
    none can be read, only the records are replaced.
    """
    damaged = await database.read(partial(damaged_rows, thread_id=thread_id))
    found: Found
    try:
        found = await IntegrityCheck(database, saver, readable, thread_id).damage()
    except (NothingReadable, UnknownThread) as error:
        if not damaged:
            raise
        found = error
    if isinstance(found, Damage) and not found.size and not damaged:
        return _recovery(found, language)
    copy = await copy_aside(time.time())
    fence, now, act = saver.fence(thread_id), time.time(), Act(RECOVERED)

    def work(connection: Connection) -> list[str]:
        check_fence(connection, thread_id, fence)
        repaired = replace_damaged(connection, thread_id, now, language)
        if isinstance(found, Damage) and found.size:
            _drop(connection, found, saver, thread_id, now)
        record(connection, act, thread_id, whole=True)
        return repaired

    return _recovery(found, language, copy, await database.write(work))


def _recovery(found: Found, language: Language, copy: str = "", repaired: Sequence[str] = ()) -> Recovery:
    match found:
        case Damage():
            place = found.outermost.checkpoint_id
            return Recovery(place, True, found.created_at, found.size, copy, [*repaired])
        case NothingReadable():
            return Recovery(None, readable=False, copy=copy, repaired=[*repaired, error_text(found, language)])
    return Recovery(None, copy=copy, repaired=[*repaired])


def _drop(connection: Connection, damage: Damage, saver: FencedSaver, thread_id: str, now: float) -> None:
    for place in damage.checkpoints:
        for statement in _DROP:
            connection.execute(statement, (thread_id, *place))
    for step in damage.steps:
        connection.state.drop_step(thread_id, *step)
    for ns, checkpoint_id in damage.unreadable:
        # Nobody can go back to one of these; logs are read past it.
        parent, metadata = connection.execute(_KEPT, (thread_id, ns, checkpoint_id)).fetchone()
        empty = saver.serde.dumps_typed({"v": 4, "id": checkpoint_id, "channel_values": {}, "channel_versions": {}})
        connection.state.put_checkpoint(thread_id, CheckpointRow(ns, checkpoint_id, parent, empty, metadata))
    connection.execute(_DROP_STRAYS, {"thread": thread_id})
    outermost = damage.outermost
    if outermost.newer:
        connection.execute(_DROP_GIVEN, (thread_id, outermost.ns, outermost.checkpoint_id))
    task = connection.execute(_LATEST, (thread_id,)).fetchone()
    if task is None:
        return
    task_id, status = task
    complete_events(connection, thread_id, task_id)
    connection.execute(_ORPHAN, (thread_id, task_id, damage.unknown_since))
    recovered = Recovered(task_id=task_id, checkpoint_id=outermost.checkpoint_id, reason=damage.reason)
    insert_event(connection, thread_id, recovered)
    if status in OPEN and status != TaskStatus.PAUSED:
        connection.execute(_PAUSE, (TaskStatus.PAUSED, now, task_id))
        insert_event(connection, thread_id, StateChanged(task_id=task_id, old=status, new=TaskStatus.PAUSED.value))


_UNREADABLE = "This text was damaged and could not be read; the session was recovered."
_NEEDED = frozenset({"task_id", "agent_id", "mode", "model", "status", "message"})
"""What a task cannot continue without."""
_KNOWN = frozenset({"scope", "idx", "name", "arguments", "state", "outcome", "finished_at", "checksum"})
"""What a call counts as made without, its outcome unknown."""

_DROP_EVENT = "DELETE FROM events WHERE task_id = ? AND seq = ?"
# In SQLite a number or an id may be none any more: as bytes both can be compared anyway.
_DROP_GARBLED = """
    DELETE FROM events WHERE CAST(task_id AS BLOB) IS CAST(? AS BLOB) AND CAST(seq AS BLOB) IS CAST(? AS BLOB)
"""
_NUMBERS = "SELECT task_id, seq, event FROM events WHERE thread_id = ? ORDER BY task_id, seq"
_TAKEN = "SELECT 1 FROM calls WHERE thread_id = ? AND task_id = ? AND scope = ? AND idx = ? AND position <> ?"
_PUT_EVENT = insert_into("events", names_of(StoredEvent))
_NAMELESS = """
    SELECT task_id FROM (
        SELECT task_id FROM events WHERE thread_id = :thread UNION SELECT task_id FROM calls WHERE thread_id = :thread
    ) AS named WHERE task_id NOT IN (SELECT task_id FROM tasks WHERE task_id IS NOT NULL)
"""
_PUT_SESSION = f"UPDATE sessions SET {set_columns(names_of(Session))} WHERE thread_id = :thread_id"


def replace_damaged(connection: Connection, thread_id: str, now: float, language: Language) -> list[str]:
    """Replace what is damaged, in the caller's transaction; returns what was done, a sentence each.

    An event that cannot be read keeps its number and says so. A task that lost what it needs ends with an error. A
    call is never made again: where its outcome is lost, it is unknown.
    """
    damaged = {
        table: [row for row in rows_of(connection, table, thread_id) if row.faults]
        for table in ("events", "tasks", "calls", "sessions")
    }
    return [
        *_replace_events(connection, thread_id, damaged["events"], now, language),
        *[_replace_task(connection, thread_id, row, now, language) for row in damaged["tasks"]],
        *[_replace_call(connection, thread_id, row, now, language) for row in damaged["calls"]],
        *[_replace_session(connection, thread_id, row, now, language) for row in damaged["sessions"]],
    ]


def _update(connection: Connection, table: str, row: ReadRow, new: Json) -> None:
    values = {**new, "position": row.stored["position"]}
    connection.execute(f"UPDATE {table} SET {set_columns(new)} WHERE position = :position", values)


def _replace_events(
    connection: Connection, thread_id: str, rows: Iterable[ReadRow], now: float, language: Language
) -> list[str]:
    dropped = 0
    for row in rows:
        task_id, seq = row.stored["task_id"], row.stored["seq"]
        readable = isinstance(task_id, str) and isinstance(seq, int)
        dropped += connection.execute(_DROP_EVENT if readable else _DROP_GARBLED, (task_id, seq)).rowcount
    if not dropped:
        return []
    filled: dict[str, list[str]] = {}
    numbers: dict[str, int] = {}
    moment = now
    for task_id, seq, event in connection.execute(_NUMBERS, (thread_id,)).fetchall():
        at = json.loads(event)["timestamp"]
        for gap in range(numbers.get(task_id, 0) + 1, seq):
            form = ErrorRaised(task_id=task_id, message=_UNREADABLE, timestamp=moment if gap > 1 else at).json()
            connection.execute(_PUT_EVENT, {**event_row(thread_id, None, 0, form), "seq": gap})
            filled.setdefault(task_id, []).append(str(gap))
        numbers[task_id], moment = seq, at
    said = [
        terminal_text("events_replaced", language, task=task, numbers=", ".join(numbered))
        for task, numbered in filled.items()
    ]
    left = dropped - sum(map(len, filled.values()))
    return [*said, terminal_text("events_dropped", language, n=left)] if left > 0 else said


def _replace_task(connection: Connection, thread_id: str, row: ReadRow, now: float, language: Language) -> str:
    task_id = row.task_id
    if not task_id:  # the one that events or calls of the session name, and no task has; else a new one
        named = connection.execute(_NAMELESS, {"thread": thread_id}).fetchone()
        task_id = named["task_id"] if named and isinstance(named["task_id"], str) else Ids().task()
    ids = {"task_id": task_id, "thread_id": thread_id, "user_id": ANYBODY}
    whole = {**empty_values(Task), **ids, "created_at": now, "updated_at": now}
    new: Json = {column: whole[column] for column in row.faults}
    status = row.values.get("status")
    ended = bool(row.faults.keys() & _NEEDED) and (status is None or status in OPEN)
    if ended:
        error = f"The record of this task was damaged ({listed_faults(row.faults)}): send its message again."
        new |= {"status": TaskStatus.ERROR.value, "error": error}
    _update(connection, "tasks", row, to_row(Task, new))
    index_again(connection, connection.fetched(_AT, (row.stored["position"],))[0])
    if ended:
        old = status or TaskStatus.PENDING.value
        insert_event(connection, thread_id, StateChanged(task_id=task_id, old=old, new=TaskStatus.ERROR.value))
    what = "task_ended_damaged" if ended else "task_emptied"
    return terminal_text(what, language, task=task_id, fields=", ".join(row.faults))


def _replace_call(connection: Connection, thread_id: str, row: ReadRow, now: float, language: Language) -> str:
    lost = f"damaged#{row.stored['position']}"
    if "checksum" in row.faults:  # some column is not what it was: the place may be right, the arguments may be
        lost = f"{lost} {row.values['scope']}/{row.values['idx']}"
    name = row.values.get("name", "unknown")
    latest = connection.execute(_LATEST, (thread_id,)).fetchone()
    whole: dict[str, Any] = {
        "thread_id": thread_id,
        "task_id": latest["task_id"] if latest else Ids().task(),
        "scope": lost,
        "idx": 0,
        "name": name,
        "arguments": "{}",
        "fence": 0,
        "started_at": row.values.get("finished_at") or now,
        "orphaned": 0,
    }
    new: Json = {column: whole[column] for column in row.faults if column in whole}
    kept = None if "checksum" in row.faults else row.values.get("outcome")
    if row.faults.keys() & _KNOWN:
        outcome = CallResult.outcome_unknown(task_text("call_record_damaged", language, tool=name)).json()
        new |= {"state": "done", "outcome": json.dumps(kept or outcome)}
        new["finished_at"] = row.values.get("finished_at") or row.values.get("started_at") or now
    if row.faults.keys() & {"scope", "idx", "checksum"}:  # it is found again by its name and arguments
        new |= {"scope": lost, "idx": 0, "orphaned": 1}
    place = {**row.stored, **new}
    key = [place[column] for column in ("thread_id", "task_id", "scope", "idx")]
    if connection.execute(_TAKEN, (*key, row.stored["position"])).fetchone():
        new |= {"scope": lost, "orphaned": 1}  # it was made again while it could not be found
    _update(connection, "calls", row, {**new, "checksum": call_checksum({**row.stored, **new})})
    return terminal_text(
        "call_repaired",
        language,
        name=name,
        task=row.task_id or whole["task_id"],
        fields=", ".join(row.faults),
        unknown=terminal_text("call_unknown", language) if "outcome" in new and not kept else "",
        stuck=terminal_text("call_stuck", language) if row.faults.keys() & {"name", "arguments"} else "",
    )


def _replace_session(connection: Connection, thread_id: str, row: ReadRow, now: float, language: Language) -> str:
    whole = {**asdict(Session(thread_id, created_at=now)), **row.values}
    connection.execute(_PUT_SESSION, to_row(Session, whole))
    return terminal_text("session_emptied", language, fields=", ".join(row.faults))


# What was done to a database behind Segue's back: the chain of its audit log, and the rows that its entries sealed.

_ENTRIES = "SELECT * FROM audit ORDER BY position"
_TASKS = "SELECT * FROM tasks ORDER BY position"
_EVENTS = "SELECT * FROM events WHERE task_id = ? ORDER BY seq"
_CALLS = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? ORDER BY position"
_CHOICES = "SELECT thread_id FROM sessions"
_STRAY_TASKS = """
    SELECT DISTINCT task_id, thread_id FROM {} AS strays WHERE NOT EXISTS (
        SELECT 1 FROM tasks WHERE (tasks.task_id, tasks.thread_id) = (strays.task_id, strays.thread_id)
    ) ORDER BY task_id
"""
NEAR = 1000
"""Places before and behind an entry where it is looked for, and entries of a gap that are named one by one."""


@dataclass
class _Sealed:
    """What the log says of a task: its last seal, and whether it has gone on since."""

    thread_id: str
    seal: Seal | None
    is_open: bool


@dataclass
class _Known:
    """What the log says, its entries read in their order."""

    kept_until: float
    """The position of the newest head that was kept elsewhere: a recovery behind it may be forged."""
    tasks: dict[str, _Sealed] = field(default_factory=dict)
    choices: dict[str, str | None] = field(default_factory=dict)
    rows: dict[str, dict[str, list[Any]]] = field(default_factory=lambda: {table: {} for table in KEPT})
    """The seals of single rows by table and key."""
    covers: set[str] = field(default_factory=set)
    """The tables whose rows all are sealed."""
    rewritten: list[Finding] = field(default_factory=list)
    """What a later entry covers although it cannot have changed."""
    complete: bool = False

    def read(self, entry: Row) -> None:
        seals, thread_id = _form(entry["seals"]), str(entry["thread_id"])
        self.complete |= entry["action"] == BEGUN
        if entry["action"] == DELETED:
            self.tasks = {name: task for name, task in self.tasks.items() if task.thread_id != thread_id}
            self.choices.pop(thread_id, None)
            for table, rows in self.rows.items():
                self.rows[table] = {key: seal for key, seal in rows.items() if seal[2] != thread_id}
        for task_id, sealed in seals["tasks"].items():
            before = self.tasks.get(task_id)
            seal = sealed or (before.seal if before else None)
            may_differ = entry["action"] == RECOVERED and entry["position"] <= self.kept_until
            if before and before.seal and sealed and not may_differ:
                self.rewritten += _rewritten(before.seal, sealed, thread_id, task_id)
            self.tasks[task_id] = _Sealed(thread_id, seal, is_open=sealed is None)
        if "choice" in seals:
            self.choices[thread_id] = seals["choice"]
        for table, owner in seals["of"].items():
            self.rows[table] = {key: seal for key, seal in self.rows[table].items() if seal[1] != owner}
        for table, rows in seals["rows"].items():
            self.rows[table].update(rows)
        if entry["action"] == BEGUN:
            self.covers |= seals["rows"].keys()

    def leaves_open(self, task_id: str) -> bool:
        """Whether a task goes on since its last seal, or has none yet."""
        sealed = self.tasks.get(task_id)
        return sealed is None or sealed.seal is None or sealed.is_open


def _form(text: str) -> Json:
    """The seals of an entry; none where it was changed so that they cannot be read."""
    try:
        form = json.loads(text)
        tasks = {name: seal and Seal.read(seal) for name, seal in form.get("tasks", {}).items()}
        rows = {table: {**form.get("rows", {}).get(table, {})} for table in form.get("rows", {}) if table in KEPT}
        owners = {table: str(owner) for table, owner in form.get("of", {}).items() if table in KEPT}
        for table, each in rows.items():
            for seal in each.values():
                _check_kept(table, seal)
        return {**form, "tasks": tasks, "rows": rows, "of": owners}
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return {"tasks": {}, "rows": {}, "of": {}}


def _check_kept(table: str, seal: Sequence[Any]) -> None:
    """Refuse a seal of a single row that is none."""
    further = {"shares": 1, "spend": 2}.get(table, 0)
    if len(seal) != 3 + further or not all(isinstance(value, int | float) for value in seal[3:]):
        raise TypeError(table)


def _rewritten(before: Seal, later: Seal, thread_id: str, task_id: str) -> Iterator[Finding]:
    """What two seals of a task say otherwise of rows that cannot have changed in between."""
    for kind, table, place in before.rewritten(later):
        row = f"task {task_id}" if table == "tasks" else f"{table.removesuffix('s')} {place + 1}"
        yield Finding(kind, table, thread_id, task_id, row)


def verify(connection: Connection, anchors: Sequence[AuditHead] = ()) -> AuditReport:
    """Compare a database with its audit log, and the log with heads that were kept elsewhere."""
    with connection.state.view():
        stored = connection.fetched(_ENTRIES)
        misplaced = [entry["position"] for entry in stored if not isinstance(entry["position"], int)]
        entries = [entry for entry in stored if isinstance(entry["position"], int)]
        known = _Known(max((anchor.position for anchor in anchors), default=math.inf))
        for entry in entries:
            known.read(entry)
        rows = {row["task_id"]: row for row in connection.fetched(_TASKS)}
        found = [_entry("changed", position) for position in misplaced]
        found += [*_of_log(entries, anchors), *_of_tasks(connection, known, rows), *_of_choices(connection, known)]
        found += [*_of_kept(connection, known, time.time()), *(each for each in known.rewritten if each not in found)]
        if known.complete:
            found += _unknown(connection, known, rows)
        head = AuditHead(entries[-1]["position"], entries[-1]["digest"]) if entries else None
        return AuditReport(head, found, [name for name in rows if known.leaves_open(name)], known.complete)


def _of_log(entries: Sequence[Row], anchors: Sequence[AuditHead]) -> Iterator[Finding]:
    """What was done to the entries themselves."""
    places = {entry["position"]: entry for entry in entries}
    newest = max(places, default=0)
    last = max([newest, *(anchor.position for anchor in anchors)])
    for position, until in pairwise([0, *sorted(places), last + 1]):
        yield from _gap("truncated" if until > newest else "removed", position + 1, until)
    for position, entry in places.items():
        before = places.get(position - 1)
        if entry["digest"] != entry_digest(entry):
            yield _entry("reordered" if _is_from_elsewhere(entry, last) else "changed", position)
        elif before is not None and entry["previous"] != before["digest"] and before["digest"] == entry_digest(before):
            yield _entry("inserted", position)
    for anchor in anchors:
        named = places.get(anchor.position)
        if named is not None and named["digest"] != anchor.digest and named["digest"] == entry_digest(named):
            yield _entry("changed", anchor.position)


def _gap(kind: Kind, first: int, until: int) -> Iterator[Finding]:
    """The entries from one place to before another one, which are gone."""
    if until - first > NEAR:
        yield Finding(kind, "audit", row=f"entries {first} to {until - 1}")
    else:
        yield from (_entry(kind, position) for position in range(first, until))


def _is_from_elsewhere(entry: Row, last: int) -> bool:
    position = entry["position"]
    near = range(max(1, position - NEAR), min(last, position + NEAR) + 1)
    return any(entry_digest(entry, other) == entry["digest"] for other in near)


def _entry(kind: Kind, position: object) -> Finding:
    return Finding(kind, "audit", row=f"entry {position}")


def _of_tasks(connection: Connection, known: _Known, rows: Mapping[str, Row]) -> Iterator[Finding]:
    for task_id, sealed in known.tasks.items():
        if sealed.seal is None:
            continue
        row = rows.get(task_id)
        events = [dict(each) for each in connection.fetched(_EVENTS, (task_id,))]
        calls = [dict(each) for each in connection.fetched(_CALLS, (sealed.thread_id, task_id))]
        if row is None:
            yield Finding("removed", "tasks", sealed.thread_id, task_id, f"task {task_id}")
        if row or events or calls:
            yield from _of_task(row, events, calls, task_id, sealed, sealed.seal)


def _of_task(
    row: Row | None, events: list[Json], calls: list[Json], task_id: str, sealed: _Sealed, seal: Seal
) -> Iterator[Finding]:
    found: list[Finding] = []
    if sealed.is_open:
        events = events[: len(seal.events)]
    elif row is not None and row_digest(dict(row), ("position",))[:SHORT] != seal.task:
        found.append(Finding("changed", "tasks", sealed.thread_id, task_id, f"task {task_id}"))
    found += _of_rows("events", events, seal.events, sealed.thread_id, task_id)
    if not sealed.is_open:
        found += _of_rows("calls", calls, seal.calls, sealed.thread_id, task_id)
    if row is not None and not found and not sealed.is_open and Seal.of(dict(row), events, calls).whole != seal.whole:
        found.append(Finding("changed", "events", sealed.thread_id, task_id))
    yield from found


_WITHOUT = {"events": ("seq",), "calls": ("position",)}


def _of_rows(
    table: str, rows: Sequence[Json], sealed: Sequence[str], thread_id: str, task_id: str
) -> Iterator[Finding]:
    digests = [row_digest(row, _WITHOUT[table])[:SHORT] for row in rows]
    for kind, place in differences(sealed, digests):
        row = rows[place] if kind in ("changed", "inserted", "reordered") else None
        yield Finding(kind, table, thread_id, task_id, _named(table, row, place))


def _named(table: str, row: Mapping[str, Any] | None, place: int) -> str:
    if table == "events":
        return f"event {place + 1 if row is None else row['seq']}"
    return f"call {place + 1}" if row is None else f"call {place + 1}, {row['name']}"


def _of_choices(connection: Connection, known: _Known) -> Iterator[Finding]:
    for thread_id, digest in known.choices.items():
        found = choice_digest(connection, thread_id)
        if found != digest:
            kind: Kind = "removed" if found is None else "inserted" if digest is None else "changed"
            yield Finding(kind, "sessions", thread_id, row=f"session {thread_id}")


def _of_kept(connection: Connection, known: _Known, now: float) -> Iterator[Finding]:
    """Permissions, links, schedules and limits that are not as they were sealed."""
    for table, sealed in known.rows.items():
        found = kept_rows(connection, table)
        for key, seal in sealed.items():
            row = found.get(key)
            has_expired = table == "shares" and seal[3] <= now
            if row is None:
                if not has_expired:
                    yield _kept_finding("removed", table, key, seal)
            elif row[0] != seal[0] or (table == "spend" and _is_less(connection, key, seal)):
                yield _kept_finding("changed", table, key, row)
        if table in known.covers:
            for key in found.keys() - sealed.keys():
                if table == "spend":  # a person's limit has an entry; what calls use is sealed once their task stops
                    (row,) = connection.fetched("SELECT raised_tokens, raised_cost FROM spend WHERE scope = ?", (key,))
                    if (row["raised_tokens"], row["raised_cost"]) == (None, None):
                        continue
                yield _kept_finding("inserted", table, key, found[key])


def _is_less(connection: Connection, scope: str, seal: Sequence[Any]) -> bool:
    """Whether less is used of a limit than there was."""
    (row,) = connection.fetched("SELECT tokens, cost FROM spend WHERE scope = ?", (scope,))
    found = (row["tokens"], row["cost"])
    return not all(isinstance(value, int) and value >= least for value, least in zip(found, seal[3:], strict=True))


def _kept_finding(kind: Kind, table: str, key: str, seal: Sequence[Any]) -> Finding:
    names = {"permissions": "permission", "shares": "link", "schedules": "schedule", "spend": "limit"}
    return Finding(kind, table, str(seal[2]), row=f"{names[table]} {key}")


def _unknown(connection: Connection, known: _Known, rows: Mapping[str, Row]) -> Iterator[Finding]:
    """Rows that no entry of the log knows, and that no process works on."""
    for task_id, row in rows.items():
        if task_id not in known.tasks and row["status"] not in ACTIVE:
            yield Finding("inserted", "tasks", row["thread_id"], task_id, f"task {task_id}")
    for table in _WITHOUT:
        for row in connection.fetched(_STRAY_TASKS.format(table)):
            task = known.tasks.get(row["task_id"])
            if task is None or (table == "calls" and task.thread_id != row["thread_id"]):
                yield Finding("inserted", table, row["thread_id"], row["task_id"])
    for row in connection.fetched(_CHOICES):
        if row["thread_id"] not in known.choices:
            yield Finding("inserted", "sessions", row["thread_id"], row=f"session {row['thread_id']}")
