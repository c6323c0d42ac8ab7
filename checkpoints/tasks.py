"""The tasks of a database, the idempotency keys that began them, and the queue of workers."""

import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from segue.core.actor import SEGUE, actor
from segue.core.audit import Act
from segue.core.errors import AmbiguousTask, KeyUsed, TaskError, TaskPinned, UnknownTask
from segue.core.events import Event, NotesMoved, NotesTaken, QuestionAnswered, StateChanged, Steered
from segue.core.models import Usage, add_usages
from segue.core.notifications import Receivers, body_of, new_id
from segue.core.records import (
    FIXED,
    OF_A_WAIT,
    Json,
    KnownRequest,
    NewTask,
    RequestKey,
    StatusTally,
    Task,
    damaged,
    empty_values,
    from_row,
    names_of,
    read,
    record_of,
    to_row,
)
from segue.core.schedules import ScheduledRun
from segue.core.spend import Owner, Quotas, TaskUsage
from segue.core.task import ACTIVE, OPEN, TaskStatus, next_status
from segue.core.timeline import Branch

from .audit import record, record_moved
from .branches import branched, put_branch
from .due import take_run
from .events import exchange_events, insert_event, share_result
from .files import Uploads, take_along
from .leases import check_fence, release_lease
from .outbox import add_notification, drop_reminders, mark_due
from .ports import ALL, Connection, Database, Row, insert_into, set_columns, sql_list
from .search import index_task

# Clients' idempotency keys, each with what its request began or continued.

_ADD = """
    INSERT INTO request_keys (key, task_id, thread_id, seq, digest, about, is_stored)
    SELECT :key, :task_id, :thread_id, coalesce(:seq, max(seq), 0), :digest, :about, :is_stored
    FROM events WHERE task_id = :task_id
    ON CONFLICT (key) DO NOTHING
"""
_WITH_KEY = "SELECT * FROM request_keys WHERE key = :key"
_CONTINUING = "SELECT * FROM request_keys WHERE task_id = :task_id AND seq = :seq ORDER BY key LIMIT 1"
_LAST = """
    SELECT * FROM request_keys
    WHERE key >= :first AND key < :after AND ltrim(substr(key, length(:first)), '0123456789') = ''
    ORDER BY length(key) DESC, key DESC LIMIT :limit
"""
_LAST_SEQ = """
    SELECT max(seq) AS seq FROM request_keys
    WHERE task_id = :task_id AND substr(key, 1, length(:prefix)) = :prefix
"""
_UNSTORED = f"""
    SELECT DISTINCT thread_id FROM request_keys
    WHERE is_stored = 0 AND (:thread_id = '' OR thread_id = :thread_id)
    AND thread_id NOT IN (
        SELECT thread_id FROM request_keys WHERE is_stored <> 0
        UNION ALL SELECT thread_id FROM sessions
        UNION ALL SELECT thread_id FROM branches
        UNION ALL SELECT root FROM branches
        UNION ALL SELECT parent FROM branches
    )
    AND NOT EXISTS (
        SELECT 1 FROM tasks WHERE tasks.thread_id = request_keys.thread_id AND (
            updated_at > :before OR (status IN ({sql_list(OPEN)}) AND updated_at > :open_before)
            OR NOT EXISTS (SELECT 1 FROM request_keys AS known WHERE known.task_id = tasks.task_id)
        )
    )
"""


def add_key(
    connection: Connection, key: RequestKey | None, thread_id: str, task_id: str = "", seq: int | None = None
) -> None:
    """Store the key of a request with what the request does, in the same transaction; without a key nothing.

    The task continues after its event `seq`, by default its newest.
    """
    if key is None:
        return
    add_key(connection, key.also, thread_id, task_id, seq)
    values: dict[str, Any] = {"key": key.key, "digest": key.digest, "about": json.dumps(key.about)}
    values["is_stored"] = int(key.is_stored)
    if connection.execute(_ADD, {**values, "thread_id": thread_id, "task_id": task_id, "seq": seq}).rowcount == 0:
        raise KeyUsed(key.name)


class RequestKeys:
    """Reads the keys, and adds those of requests that change nothing."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def get(self, key: str) -> KnownRequest | None:
        """Return what the request with a key did, or None."""
        return await self._one(_WITH_KEY, key=key)

    async def continuing(self, task_id: str, seq: int) -> KnownRequest | None:
        """Return the request that continued a task after its event of that number, 0 for its beginning, or None."""
        return await self._one(_CONTINUING, task_id=task_id, seq=seq)

    async def last(self, prefix: str, limit: int) -> list[KnownRequest]:
        """Return what the requests did whose keys are this prefix and a number, the highest numbers first."""
        about = {"first": f"{prefix}0", "after": f"{prefix}:", "limit": limit}  # a colon follows the digits
        return await self._all(_LAST, about)

    async def last_seq(self, task_id: str, prefix: str) -> int | None:
        """Return the event after which a task was last continued by a request whose key has this prefix."""
        about = {"task_id": task_id, "prefix": prefix}
        rows = await self._database.read(lambda connection: connection.fetched(_LAST_SEQ, about))
        return None if rows[0]["seq"] is None else int(rows[0]["seq"])

    async def add(self, key: RequestKey, thread_id: str, task_id: str, seq: int) -> None:
        """Store that a request was answered with what a task did after its event `seq`."""
        await self._database.write(lambda connection: add_key(connection, key, thread_id, task_id, seq))

    async def unstored(self, before: float, open_before: float, thread_id: str = "") -> list[str]:
        """Return the threads, or the one that is named, whose every task has only requests that are not stored.

        None has a task that changed since `before`, or since `open_before` if it is open; none was created without a
        message, and none has branches or is one.
        """
        values = {"thread_id": thread_id, "before": before, "open_before": open_before}
        rows = await self._database.read(lambda connection: connection.fetched(_UNSTORED, values))
        return [row["thread_id"] for row in rows]

    async def _one(self, statement: str, **values: Any) -> KnownRequest | None:
        return next(iter(await self._all(statement, values)), None)

    async def _all(self, statement: str, values: Mapping[str, Any]) -> list[KnownRequest]:
        rows = await self._database.read(lambda connection: connection.fetched(statement, values))
        return [from_row(KnownRequest, {**dict(row), "is_stored": row["is_stored"] != 0}) for row in rows]


# The tasks that wait for workers, counted for quotas.

LOCK = "segue.queue"
"""What a transaction locks that counts them."""

_WAIT = f"""
    SELECT count(*) AS of_tenant, coalesce(sum(CASE WHEN user_id = :user_id THEN 1 ELSE 0 END), 0) AS of_user
    FROM tasks
    WHERE status = '{TaskStatus.PENDING}' AND copy_of IS NULL AND called_by IS NULL AND CASE WHEN :prefix = ''
        THEN thread_id NOT LIKE '%:%' ELSE substr(thread_id, 1, length(:prefix)) = :prefix END
"""


def check_queue(connection: Connection, new: NewTask, quotas: Quotas) -> None:
    """Refuse a task where as many of its user or its tenant have not begun as may wait."""
    connection.lock(LOCK)
    owner = Owner.of(new.session_id, new.user_id)
    prefix = f"{owner.tenant}:" if owner.tenant else ""
    row = connection.execute(_WAIT, {"prefix": prefix, "user_id": new.user_id}).fetchone()
    quotas.check_queue(row["of_user"], row["of_tenant"])


# The tasks of a database: one for each message, with its status and result.

Moved = tuple[Task, list[Event]]
"""A task, and the events that were stored with the change."""

_Tasks = list[Task]
_Owned = list[tuple[Task, str]]
_Tallies = list[StatusTally]
_Usages = list[TaskUsage]

SHORTEST = 6
"""Characters that an id may be shortened to."""

_INSERT = insert_into("tasks", (*names_of(NewTask), "status", "created_at", "updated_at")) + " RETURNING *"
_GET = "SELECT * FROM tasks WHERE task_id = ?"
_UPDATE = f"UPDATE tasks SET {set_columns(names_of(Task, without=FIXED))} WHERE task_id = :task_id RETURNING *"
_ADDITIONS = f"""
    SELECT seq, event FROM events WHERE task_id = ?
        AND (event LIKE '%"type":"{Steered.type}"%' OR event LIKE '%"type":"{NotesTaken.type}"%') ORDER BY seq
"""
_REKEY = "UPDATE request_keys SET task_id = :next, seq = 0 WHERE task_id = :task_id AND seq = :before"
_EXPIRED = "UPDATE tasks SET error = :sentence WHERE task_id = :task_id RETURNING *"
_NUMBERED = "SELECT task_id FROM tasks WHERE thread_id = ? ORDER BY position"
_SINCE = """
    SELECT * FROM tasks WHERE thread_id = :thread_id AND (
        updated_at > :moment
        OR position >= coalesce((SELECT position FROM tasks WHERE task_id = CAST(:task_id AS TEXT)), 0)
    ) ORDER BY position
"""
_BEGUN = """
    SELECT DISTINCT thread_id FROM tasks
    WHERE created_at >= :after AND coalesce(mode, '') <> :mode
        AND (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
"""
_CONVERSATION = "SELECT * FROM tasks WHERE bot_session = ? ORDER BY position DESC LIMIT 1"
_BOT = "SELECT bot_session FROM tasks WHERE thread_id = ? AND bot_session IS NOT NULL LIMIT 1"
_CALLED = "SELECT * FROM tasks WHERE called_by = ? ORDER BY position"
# Of an event that a node here told of; one that came with a document has no source.
_ANSWERS = """
    SELECT event FROM events WHERE {} = ? AND source IS NOT NULL AND event LIKE '%"question_answered"%'
    ORDER BY task_id, seq
"""
_CALLER = """
    SELECT caller.* FROM tasks JOIN tasks AS caller ON caller.task_id = tasks.called_by
    WHERE tasks.thread_id = ? ORDER BY tasks.position DESC LIMIT 1
"""
_BELOW = """
    SELECT DISTINCT thread_id FROM tasks
    WHERE called_by IN (SELECT task_id FROM tasks AS callers WHERE callers.thread_id = ?)
"""
_LATEST = "SELECT * FROM tasks WHERE thread_id = ? ORDER BY position DESC LIMIT 1"
_STARTING_WITH = "SELECT task_id FROM tasks WHERE substr(task_id, 1, length(:text)) = :text ORDER BY position LIMIT 10"
_REQUESTED = "SELECT task_id, requested FROM tasks WHERE requested IS NOT NULL AND task_id IN ({})"
# Without a live owner a task is interrupted, or paused until somebody resumes it.
_UNFINISHED = f"""
    SELECT tasks.*, CASE WHEN leases.expires_at > :now THEN leases.owner ELSE '' END AS owner
    FROM tasks LEFT JOIN leases USING (thread_id)
    WHERE coalesce(status, '') NOT IN ({sql_list({*TaskStatus} - ACTIVE - {TaskStatus.PAUSED})}) ORDER BY position
"""
_UNENDED = """
    SELECT tasks.*, CASE WHEN leases.expires_at > :now THEN leases.owner ELSE '' END AS owner
    FROM tasks LEFT JOIN leases USING (thread_id)
    WHERE copy_of IS NULL AND called_by IS NULL AND status IN ({statuses}) AND NOT EXISTS (
        SELECT 1 FROM tasks AS talk WHERE talk.bot_session = tasks.thread_id AND talk.status IN ({statuses})
    ) ORDER BY position
"""
_WAITING = f"""
    SELECT * FROM tasks
    WHERE status = '{TaskStatus.WAITING}' AND (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
    ORDER BY updated_at, position
"""
_TALLY = """
    SELECT status, count(*) AS tasks, min(updated_at) AS oldest FROM tasks WHERE copy_of IS NULL GROUP BY status
"""
_OF = """
    FROM tasks
    WHERE (CAST(:agent_id AS TEXT) IS NULL OR agent_id = :agent_id)
        AND (CAST(:thread_id AS TEXT) IS NULL OR thread_id = :thread_id)
        AND (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
        AND updated_at >= :since AND (:any_time OR created_at <= :until)
"""
# As `Task.resumes_itself` says, which lists show as running.
_WITH_STATUS = f"""
    AND CASE WHEN status = '{TaskStatus.PAUSED}' AND requested IS NULL
        THEN '{TaskStatus.RUNNING}' ELSE status END IN ({{}})
"""
_LIST = """
    SELECT * {of}
        AND (CAST(:before AS TEXT) IS NULL OR position < (SELECT position FROM tasks WHERE task_id = :before))
    ORDER BY position DESC LIMIT :limit
"""
# The tasks of a conversation's bot are left out, and those of agents that are tools, unless they are asked for: the
# conversation and the tasks that call them count what they used.
_USAGES = f"""
    SELECT agent_id, user_id, model, created_at, result {_OF}
        AND copy_of IS NULL AND created_at >= :begun
        AND (CAST(:thread_id AS TEXT) IS NOT NULL OR (called_by IS NULL
            AND NOT EXISTS (SELECT 1 FROM tasks AS talk WHERE talk.bot_session = tasks.thread_id)))
    ORDER BY position
"""

NOBODY = Receivers()


def shown(row: Row) -> Task:
    """The task of a row; of a damaged one what can be read, with the status error and a sentence for its error."""
    values, faults = read(Task, row)
    if faults:
        sentence = str(damaged(Task, values, faults))
        values = {**empty_values(Task), **values, "status": TaskStatus.ERROR, "error": sentence}
    return record_of(Task, values)


def conversation_of(connection: Connection, thread_id: str) -> Task | None:
    """The newest conversation whose bot has this thread, as lists show it, or None."""
    rows = connection.fetched(_CONVERSATION, (thread_id,))
    return shown(rows[0]) if rows else None


def caller_of(connection: Connection, thread_id: str) -> Task | None:
    """The outermost task that called the agent of this thread as a tool, as lists show it, or None."""
    rows = connection.fetched(_CALLER, (thread_id,))
    return caller_of(connection, rows[0]["thread_id"]) or shown(rows[0]) if rows else None


class Tasks:
    """The tasks of a database.

    Work on a task whose row is damaged raises DamagedRow. Lists show the columns that can be read, with the status
    `error` and a message. What becomes of a task is stored for `receivers` with it. Whatever raises has stored nothing.
    """

    def __init__(
        self, database: Database[Connection], clock: Callable[[], float] | None = None, receivers: Receivers = NOBODY
    ) -> None:
        self._database = database
        self._receivers = receivers
        self._clock = clock or time.time

    async def create(
        self,
        new: NewTask,
        *,
        fence: int | None = None,
        key: RequestKey | None = None,
        release: bool = False,
        run: ScheduledRun | None = None,
        branch: Branch | None = None,
        uploads: Uploads = (),
        quotas: Quotas | None = None,
    ) -> Task:
        """Store a pending task, and that the idempotency key began it; `release` ends the lease of `fence` with it.

        With `run` it is a schedule's, which goes on to the next one; with `branch` it begins a branch. It takes
        the `uploads` along.
        """
        now = self._clock()
        act = branched(branch) if branch else None

        def insert(connection: Connection) -> Row:
            if fence is not None:
                check_fence(connection, new.session_id, fence)
            add_key(connection, key, new.session_id, new.task_id)
            if quotas and quotas.limit_queues:
                check_queue(connection, new, quotas)
            row = _insert(connection, vars(new), now)
            if uploads:
                take_along(connection, uploads)
            if release:
                release_lease(connection, new.session_id, fence)
            if run:
                take_run(connection, run, new.task_id)
            if branch and act:
                put_branch(connection, branch)
                record(connection, act, new.session_id)
            return row

        return from_row(Task, await self._database.write(insert, brief=True))

    async def get(self, task_id: str) -> Task:
        """Return one task."""
        return from_row(Task, await self._database.read(lambda connection: _find(connection, task_id), brief=True))

    async def show(self, task_id: str) -> Task:
        """Return one task as lists show it."""
        return shown(await self._database.read(lambda connection: _find(connection, task_id), brief=True))

    async def move(
        self,
        task_id: str,
        status: TaskStatus | None,
        *,
        events: Iterable[Event] = (),
        fence: int | None = None,
        release: bool = False,
        key: RequestKey | None = None,
        act: Act | None = None,
        taken: int | None = None,
        next_id: str = "",
        used: Usage | None = None,
        steered: Steered | None = None,
        **changes: Any,
    ) -> Moved:
        """Change a task and store its events and the idempotency key that asked for it, in one transaction.

        The event of a new status comes first, then `events`. `changes` are fields that are not FIXED; what is not
        named stays, but an error and a wait go with the next status. `release` ends the lease of `fence` with it,
        `taken` is the position of the event that it takes. The audit log has `act`, or that it stopped or went on by
        itself. With `next_id` the graph has ended: what was added to the task since its agent looked last becomes a
        pending task of that id, and an event says so. What was `used` is added to the usage of the stored result.
        `steered` is a message that is added to the task.
        """
        announced = (*events, steered) if steered else tuple(events)

        def change(connection: Connection) -> Moved:
            before = _locked(connection, task_id)
            old = from_row(Task, before)
            if fence is not None:
                check_fence(connection, old.session_id, fence)
            stays_pinned = old.on_upgrade == "pin" == changes.get("on_upgrade", "pin")
            if stays_pinned and changes.get("agent_version", old.agent_version) != old.agent_version:
                raise TaskPinned(old.task_id, old.agent_id, old.agent_version)
            add_key(connection, key, old.session_id, task_id)
            new = old.status if status is None else next_status(old.status, status)
            moved = [] if new == old.status else [StateChanged(task_id=task_id, old=str(old.status), new=str(new))]
            kept = {} if status is None else {"error": None, **empty_values(Task, OF_A_WAIT)}
            early = exchange_events(connection, task_id, changes.get("awaited"), taken, self._clock())
            late = _begin_next(connection, old, next_id, self._clock()) if next_id and old.notes else None
            notes = old.notes[: late.count] if late else old.notes
            changed = {**vars(old), **kept, **changes, **early, "notes": notes, "status": str(new)}
            if steered:
                changed |= {"notes": [*notes, steered.message], "asked_by": _with_actor(old)}
            if used:
                result = changed["result"] or {}
                changed["result"] = {**result, "usage": add_usages([result.get("usage") or {}, used])}
            row = self._store(connection, before, changed)
            if used or "result" in changes:
                share_result(connection, task_id, row["result"])
            if status is not None and new not in ACTIVE:
                mark_due(connection, task_id, row["updated_at"])
            connection.notify(task_id, old.session_id)
            stored = [
                insert_event(connection, old.session_id, event)
                for event in (*moved, *announced, *([late] if late else []))
            ]
            if release:
                release_lease(connection, old.session_id, fence)
            return self._record_change(connection, act, old, from_row(Task, row), announced), stored

        return await self._database.write(change, brief=True)

    def _record_change(
        self, connection: Connection, act: Act | None, old: Task, task: Task, events: Sequence[Event]
    ) -> Task:
        """Write a task's change to the audit log and to its receivers. A bot's is sent with its conversation's.

        So is that of an agent which is a tool with its caller's.
        """
        record_moved(connection, act, old, task)
        if old.status == TaskStatus.WAITING != task.status:
            drop_reminders(connection, task.task_id)
        told = self._receivers.told(old, task, events)
        later = [*((*each, 0.0) for each in told), *self._receivers.told_later(task, events)]
        conversation = conversation_of(connection, task.session_id) if later else None
        if task.called_by:
            return task
        if conversation is None or conversation.status not in OPEN:
            for receiver, kind, after in later:
                add_notification(connection, task, receiver, body_of(new_id(), kind, task, events), after)
        return task

    async def add_note(self, task_id: str, text: str, event: Event, key: RequestKey | None = None) -> Moved:
        """Add a text that steers a task which has not ended, and store its idempotency key with the task.

        It is on the disk when this returns.
        """

        act = Act("steered")

        def add(connection: Connection) -> Moved:
            before = _locked(connection, task_id)
            task = from_row(Task, before)
            if task.status not in OPEN:
                raise TaskError("Task {task_id} is {status}: send a new message.", task_id=task_id, status=task.status)
            add_key(connection, key, task.session_id, task_id)
            changed = {**vars(task), "notes": [*task.notes, text], "asked_by": _with_actor(task)}
            row = self._store(connection, before, changed)
            connection.notify(task_id, task.session_id)
            stored = [insert_event(connection, task.session_id, event)]
            record(connection, act, task.session_id, task_id)
            return from_row(Task, row), stored

        return await self._database.write(add, synced=True, brief=True)

    async def note_expiry(self, task_id: str, sentence: str) -> None:
        """Note with a task that it waits for an approval that expired, unless it goes on already."""

        def note(connection: Connection) -> None:
            before = from_row(Task, _locked(connection, task_id))
            if before.status == TaskStatus.WAITING:
                row = connection.execute(_EXPIRED, {"task_id": task_id, "sentence": sentence}).fetchone()
                connection.notify(task_id, before.session_id)
                self._record_change(connection, Act("expired", actor=SEGUE), before, from_row(Task, row), ())

        await self._database.write(note)

    def _store(self, connection: Connection, before: Row, changed: Json) -> Row:
        """Store the columns of a task; what it says now can be found."""
        row: Row = connection.execute(_UPDATE, to_row(Task, {**changed, "updated_at": self._clock()})).fetchone()
        index_task(connection, row, before)
        return row

    async def find(self, text: str) -> str:
        """Return the id of the task that `text` is, or the beginning of, from six characters on."""
        rows = await self._database.read(lambda connection: connection.fetched(_STARTING_WITH, {"text": text}))
        found = [str(row["task_id"]) for row in rows]
        if text in found:
            return text
        if len(text) < SHORTEST:
            raise AmbiguousTask(
                "'{text}' is too short for a task id: write at least its first {least} characters; `segue "
                "tasks` lists the tasks.",
                text=text,
                least=SHORTEST,
            )
        if not found:
            raise UnknownTask(text)
        if len(found) > 1:
            raise AmbiguousTask(
                "Several tasks begin with '{text}': write more of {found}.", text=text, found=", ".join(found)
            )
        return found[0]

    async def requested(self, task_ids: Collection[str]) -> dict[str, str]:
        """Return the requested pauses and cancellations, by task id."""
        given = [*task_ids]
        requested = _REQUESTED.format(", ".join("?" * len(given)) or "NULL")
        rows = await self._database.read(lambda connection: connection.fetched(requested, given), brief=True)
        return {row["task_id"]: row["requested"] for row in rows}

    async def unfinished(self) -> _Owned:
        """Return the tasks that have not ended and wait for no answer, oldest first, each with its live owner or "".

        One whose status cannot be read is among them.
        """
        rows = await self._database.read(lambda db: db.fetched(_UNFINISHED, {"now": db.now()}))
        return [(shown(row), row["owner"]) for row in rows]

    async def unended(self) -> _Owned:
        """Return the tasks that have not come to an end, those that wait among them, each as `unfinished`.

        Those of the bot of an unfinished conversation are left out: they go on with that.
        """
        statement = _UNENDED.format(statuses=sql_list(OPEN))
        rows = await self._database.read(lambda db: db.fetched(statement, {"now": db.now()}))
        return [(shown(row), row["owner"]) for row in rows]

    async def waiting(self, prefix: str = "") -> _Tasks:
        """Return the tasks that wait for a person, the longest waiting first, of threads with that beginning."""
        values = {"prefix": prefix}
        return [shown(row) for row in await self._database.read(lambda db: db.fetched(_WAITING, values))]

    async def tally(self) -> _Tallies:
        """Count the tasks by status, without the copies in forked and imported threads; damaged rows are left out."""
        found = await self._database.read(lambda connection: connection.fetched(_TALLY))
        return [from_row(StatusTally, row) for row in found if not read(StatusTally, row)[1]]

    async def latest_of(self, thread_id: str) -> Task | None:
        """Return the thread's newest task, or None."""
        rows = await self._database.read(lambda connection: connection.fetched(_LATEST, (thread_id,)), brief=True)
        return from_row(Task, rows[0]) if rows else None

    async def conversation_of(self, thread_id: str) -> Task | None:
        """Return the newest conversation whose bot has this thread, as lists show it, or None."""
        return await self._database.read(lambda connection: conversation_of(connection, thread_id), brief=True)

    async def bot_of(self, thread_id: str) -> str:
        """Return the thread of the bot of a conversation; empty where the thread is none with an agent."""
        rows = await self._database.read(lambda connection: connection.fetched(_BOT, (thread_id,)))
        return str(rows[0]["bot_session"]) if rows else ""

    async def called_by(self, task_id: str) -> _Tasks:
        """Return the tasks of the agents that a task called as tools, oldest first, as lists show them."""
        return [shown(row) for row in await self._database.read(lambda db: db.fetched(_CALLED, (task_id,)))]

    async def answers(self, *, thread_id: str = "", task_id: str = "") -> Mapping[str, Sequence[str]]:
        """Return what persons answered here to the questions of a thread's tasks, or of one task, by task."""
        statement = _ANSWERS.format("thread_id" if thread_id else "task_id")
        rows = await self._database.read(lambda connection: connection.fetched(statement, (thread_id or task_id,)))
        found: dict[str, list[str]] = {}
        for event in (json.loads(row["event"]) for row in rows):
            if event["type"] == QuestionAnswered.type:
                found.setdefault(event["task_id"], []).append(event["data"]["answer"])
        return found

    async def below(self, thread_id: str) -> Sequence[str]:
        """Return the threads of the agents that a thread's tasks called as tools."""
        return [row["thread_id"] for row in await self._database.read(lambda db: db.fetched(_BELOW, (thread_id,)))]

    async def list(
        self,
        agent_id: str | None = None,
        thread_id: str | None = None,
        limit: int = 50,
        before: str | None = None,
        prefix: str = "",
        statuses: Collection[TaskStatus] | None = None,
        since: float = 0.0,
        until: float = math.inf,
    ) -> _Tasks:
        """Return tasks, newest first, of threads whose names begin with `prefix`.

        `before` is the task_id that the last page ended with. With `statuses` those that have one of them: a task that
        the end of its process paused counts as running. They changed at `since` or later, and were begun at `until` or
        earlier.
        """
        values = {"agent_id": agent_id, "thread_id": thread_id, "prefix": prefix, "since": since, "until": until}
        values |= {"limit": (ALL if limit < 0 else limit), "before": before, "any_time": until == math.inf}
        statement = _LIST.format(of=_where_clause(statuses))
        return [shown(row) for row in await self._database.read(lambda db: db.fetched(statement, values))]

    async def count(
        self,
        agent_id: str | None = None,
        thread_id: str | None = None,
        prefix: str = "",
        statuses: Collection[TaskStatus] | None = None,
        since: float = 0.0,
    ) -> int:
        """Count the tasks that `list` would return without a limit."""
        values = {"agent_id": agent_id, "thread_id": thread_id, "prefix": prefix, "since": since}
        values |= {"until": math.inf, "any_time": True}
        statement = f"SELECT count(*) AS tasks {_where_clause(statuses)}"
        (row,) = await self._database.read(lambda db: db.fetched(statement, values))
        return int(row["tasks"])

    async def usages(
        self, agent_id: str | None = None, thread_id: str | None = None, prefix: str = "", begun: float = 0.0
    ) -> _Usages:
        """Return what tasks used that were begun at `begun` or later, oldest first, without the copies in forks.

        Those of a conversation's bot are only in the list of their own thread.
        """
        values = {"agent_id": agent_id, "thread_id": thread_id, "prefix": prefix, "begun": begun}
        values |= {"since": 0.0, "until": math.inf, "any_time": True}

        def usages(connection: Connection) -> _Usages:
            return [TaskUsage(**read(TaskUsage, row)[0]) for row in connection.fetched(_USAGES, values)]

        return await self._database.read(usages)

    async def task_ids(self, thread_id: str) -> Sequence[str]:
        """Return the ids of a thread's tasks, oldest first."""
        rows = await self._database.read(lambda db: db.fetched(_NUMBERED, (thread_id,)))
        return [str(row["task_id"]) for row in rows]

    async def threads(self, after: float, prefix: str, without_mode: str) -> Sequence[str]:
        """Return the threads, by name, with a task of another mode that was begun at a moment or later."""
        values = {"after": after, "prefix": prefix, "mode": without_mode}
        rows = await self._database.read(lambda db: db.fetched(_BEGUN, values))
        return sorted(str(row["thread_id"]) for row in rows)

    async def since(self, thread_id: str, task_id: str | None, moment: float) -> _Tasks:
        """Return one of a thread's tasks, the later ones and those that changed since a moment, oldest first.

        All of them where there is no task of that id.
        """
        values = {"thread_id": thread_id, "task_id": task_id, "moment": moment}
        return [shown(row) for row in await self._database.read(lambda db: db.fetched(_SINCE, values))]


def _insert(connection: Connection, new: Mapping[str, Any], now: float) -> Row:
    """Store a pending task with the fields of a NewTask, and let it be found."""
    connection.notify(new["task_id"], new["session_id"])
    values = {**to_row(NewTask, new), "status": TaskStatus.PENDING.value, "created_at": now, "updated_at": now}
    row: Row = connection.execute(_INSERT, values).fetchone()
    index_task(connection, row)
    return row


def _begin_next(connection: Connection, ended: Task, next_id: str, now: float) -> NotesMoved | None:
    """Make a task of the messages that the agent of an ended one does not know; None where it knows them all.

    Their idempotency keys are moved to it.
    """
    events = [(row["seq"], json.loads(row["event"])) for row in connection.fetched(_ADDITIONS, (ended.task_id,))]
    known = max((event["data"]["count"] for _, event in events if event["type"] == NotesTaken.type), default=0)
    late = ended.notes[known:]
    if not late:
        return None
    new = {field.name: getattr(ended, field.name) for field in fields(NewTask)}
    new |= {"task_id": next_id, "message": "\n\n".join(late), "attachments": []}
    new |= {"bot_session": None, "called_by": None}
    _insert(connection, new, now)
    added = [seq for seq, event in events if event["type"] == Steered.type]
    for seq in added[known:]:
        if seq > 1:  # before the first event stands what began the task
            connection.execute(_REKEY, {"next": next_id, "task_id": ended.task_id, "before": seq - 1})
    return NotesMoved(task_id=ended.task_id, count=known, next_task_id=next_id)


def _with_actor(task: Task) -> list[str]:
    """Who asked for a task, with the one who adds a message to it."""
    return [*dict.fromkeys([*task.asked_by, actor()])]


def _where_clause(statuses: Collection[TaskStatus] | None) -> str:
    """The tasks that are listed."""
    if statuses is None:
        return _OF
    return _OF + _WITH_STATUS.format(sql_list(statuses))


def _find(connection: Connection, task_id: str, lock: str = "") -> Row:
    rows: list[Row] = connection.fetched(f"{_GET}{lock}", (task_id,))
    if not rows:
        raise UnknownTask(task_id)
    return rows[0]


def _locked(connection: Connection, task_id: str) -> Row:
    """A task that this transaction is about to change."""
    return _find(connection, task_id, connection.for_update)
