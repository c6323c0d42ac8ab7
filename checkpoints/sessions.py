"""The threads of a database: their list, and what is done with a whole one."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Literal

from langgraph.checkpoint.serde.types import _DeltaSnapshot

from segue.core.audit import DELETED, Act
from segue.core.conversation import MODE
from segue.core.errors import DamagedCheckpoint, InvalidAnswer, UnknownTask, UnknownThread
from segue.core.records import (
    BEST,
    STORED_AS_JSON,
    Call,
    Json,
    Preference,
    RatedAnswer,
    Recovery,
    RequestKey,
    Session,
    SessionChanges,
    SessionFilter,
    Thread,
    UserPreferences,
    empty_values,
    from_row,
    names_of,
    read,
    readable,
    record_of,
    to_row,
)
from segue.core.task import FORK_MARK, PEOPLE, TaskStatus, title_of
from segue.core.timeline import UNDO_SCOPE, Branch, CallOrigin, Place, Snapshot
from segue.prompts.catalogue import Language

from .audit import Audit, record
from .branches import branched, branches_of, put_branch
from .damage import Readable, recover
from .due import delete_of_thread
from .export import IMPORTED, WholeThread, export, read_import, read_thread, store_import, store_thread, threads_of
from .files import Uploads, take_along
from .fork import fork, refuse_taken
from .leases import check_fence
from .ports import ALL, Backend, CheckpointRow, Connection, Database, Row, insert_into
from .rows import NEXT, SERDE, check_thread, decoded_checkpoint, decoding, delete_rows, seconds_of
from .saver import FencedSaver
from .schema import OF_SESSIONS, RECOVERED
from .search import remove_thread
from .snapshots import Checkpoint, find, find_place, following, nodes_run, snapshot, snapshots
from .tasks import add_key

# The threads of a database as they are listed: one row for each conversation.

_PEOPLE = ", ".join(f"'{origin}'" for origin in PEOPLE)
_COLUMNS = """
    SELECT last.thread_id, turns, titles.title, first.message AS first_message, last.message,
        last.agent_id, last.mode, last.model, last.status, last.updated_at AS updated_at,
        coalesce(sessions.agent_id, '') AS default_agent, coalesce(sessions.model, '') AS default_model,
        coalesce(root, last.thread_id) AS root, first.origin AS origin,
        coalesce(filed.is_pinned, 0) AS pinned, coalesce(filed.is_archived, 0) AS archived, last.position AS position
    FROM (
        SELECT counted.*, root,
            row_number() OVER (
                PARTITION BY coalesce(root, counted.thread_id)
                ORDER BY CASE WHEN turns < turn THEN 1 ELSE 0 END, last DESC
            ) AS place
        FROM (
            SELECT thread_id, count(*) AS turns, min(position) AS first, max(position) AS last FROM tasks {of_tasks}
            GROUP BY thread_id
        ) AS counted LEFT JOIN branches ON branches.thread_id = counted.thread_id
    ) AS counted
    JOIN tasks AS first ON first.position = counted.first
    JOIN tasks AS last ON last.position = counted.last
    LEFT JOIN titles ON titles.thread_id = last.thread_id
    LEFT JOIN sessions ON sessions.thread_id = last.thread_id
    LEFT JOIN sessions AS filed ON filed.thread_id = coalesce(root, last.thread_id)
    WHERE place = 1
    UNION ALL
    SELECT sessions.thread_id, 0, titles.title, '', '', sessions.agent_id, '', sessions.model, 'done',
        sessions.created_at, sessions.agent_id, sessions.model, sessions.thread_id, 'api', is_pinned, is_archived, 0
    FROM sessions LEFT JOIN titles ON titles.thread_id = sessions.thread_id
    WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.thread_id = sessions.thread_id) {of_sessions}
"""
# Of the branches of a conversation the one that was used last; one whose own turn was not stored is none yet.
_OF_ALL = _COLUMNS.format(of_tasks="", of_sessions="")
_OF_ONE = _COLUMNS.format(of_tasks="WHERE thread_id = :thread_id", of_sessions="AND sessions.thread_id = :thread_id")
# The thread of a conversation's bot is a part of the conversation, and that of an agent that is a tool of its caller's.
_LISTED = f"""
    FROM ({_OF_ALL}) AS every
    WHERE (:prefix = '' OR substr(thread_id, 1, length(:prefix)) = :prefix)
        AND (:search = '' OR lower(coalesce(title, '')) LIKE lower(:pattern) ESCAPE '!'
            OR lower(first_message) LIKE lower(:pattern) ESCAPE '!')
        AND (CAST(:bots AS INTEGER) = 1 OR (
            NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.bot_session = every.thread_id)
            AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.thread_id = every.thread_id AND called_by IS NOT NULL)))
        AND (CAST(:archived AS INTEGER) IS NULL OR archived = CAST(:archived AS INTEGER))
        AND (CAST(:sender AS TEXT) IS NULL
            OR CASE WHEN origin IN ({_PEOPLE}) THEN 'people' ELSE 'programs' END = :sender)
"""
_LIST = f"""
    SELECT * FROM (
        SELECT listed.*, coalesce(updated_at + 0.0, 0) AS used,
            CASE WHEN CAST(:pinned_first AS INTEGER) = 1 AND pinned <> 0 THEN 1 ELSE 0 END AS first_of_all
        FROM (SELECT * {_LISTED}) AS listed
    ) AS placed
    WHERE CAST(:after AS TEXT) IS NULL OR (first_of_all, used, position, thread_id) < (
        CAST(:after_pinned AS INTEGER), CAST(:after_used AS DOUBLE PRECISION),
        (SELECT coalesce(max(position), 0) FROM tasks WHERE thread_id = :after), :after
    )
    ORDER BY first_of_all DESC, used DESC, position DESC, thread_id DESC LIMIT :limit
"""
_COUNT = f"SELECT count(*) AS threads {_LISTED}"
_WILDCARD = re.compile("[!%_]")
_NAME = """
    INSERT INTO titles (thread_id, title) VALUES (:thread_id, :title)
    ON CONFLICT (thread_id) DO UPDATE SET title = excluded.title
"""
_TITLED = "SELECT 1 FROM titles WHERE thread_id = ?"
_UNNAME = "DELETE FROM titles WHERE thread_id = :thread_id"


class ThreadList:
    """Reads and names the threads of a database. Of a damaged row it shows what can be read, with the status error."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def list(
        self,
        which: SessionFilter,
        limit: int = -1,
        *,
        pinned_first: bool = False,
        after: tuple[bool, float, str] | None = None,
    ) -> list[Thread]:
        """Return threads, last used first; one for each conversation. `after` has a thread's fields: see `Sessions`."""
        values = {**_values(which), "limit": ALL if limit < 0 else limit, "pinned_first": int(pinned_first)}
        pinned, used, name = after or (False, 0.0, None)
        values |= {"after": name, "after_pinned": int(pinned and pinned_first), "after_used": used}
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, values))
        return [_shown(row) for row in rows]

    async def is_titled(self, thread_id: str) -> bool:
        """Whether a thread was named, by a person or a model."""
        return await self._database.read(lambda connection: is_titled(connection, thread_id))

    async def count(self, which: SessionFilter) -> int:
        """Count the threads that `list` returns without a limit."""
        (row,) = await self._database.read(lambda connection: connection.fetched(_COUNT, _values(which)))
        return int(row["threads"])

    async def get(self, thread_id: str) -> Thread:
        """Return one thread."""
        rows = await self._database.read(lambda connection: connection.fetched(_OF_ONE, {"thread_id": thread_id}))
        if not rows:
            raise UnknownThread(thread_id)
        return _shown(rows[0])


def is_titled(connection: Connection, thread_id: str) -> bool:
    """Whether a thread was named, by a person or a model."""
    return bool(connection.fetched(_TITLED, (thread_id,)))


def name_thread(connection: Connection, thread_id: str, title: str) -> None:
    """Give a thread a title, in the transaction of what else is stored; an empty one takes it back."""
    connection.execute(_NAME if title else _UNNAME, {"thread_id": thread_id, "title": title})


def _values(which: SessionFilter) -> dict[str, object]:
    archived = None if which.archived is None else int(which.archived)
    pattern = "%" + _WILDCARD.sub(r"!\g<0>", which.search) + "%"
    return {**asdict(which), "bots": int(which.bots), "archived": archived, "pattern": pattern}


def _shown(row: Row) -> Thread:
    title, first = row["title"], row["first_message"]
    if not isinstance(title, str):
        title = first
    mark = FORK_MARK if str(title).startswith(FORK_MARK) else ""
    unnamed = str(title).removeprefix(mark)
    if row["mode"] != MODE and str(first).startswith(unnamed):  # that of a conversation is its configuration
        title = mark + title_of(unnamed)
    flags = {name: row[name] != 0 for name in ("pinned", "archived")}
    values, faults = read(Thread, {**dict(row), "title": title, **flags})
    if faults:
        values = {**empty_values(Thread), "origin": "python", **values, "status": TaskStatus.ERROR}
    return record_of(Thread, values)


# Whole threads of a database.

Values = Callable[[Place], Awaitable[Mapping[str, Any]]]
"""Gives the values of all channels at a snapshot; raises DamagedCheckpoint where its graph is not known."""

_COUNTED = "counters_since_delta_snapshot"
"""LangGraph's metadata of the logs that are not stored whole in a checkpoint."""
_ROWS = """
    SELECT checkpoint_ns, checkpoint_id, CAST(metadata AS TEXT) AS metadata FROM checkpoints
    WHERE thread_id = ? ORDER BY checkpoint_id
"""
_DELETE_SNAPSHOTS = "DELETE FROM {} WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id < ?"
_END = "z"
"""Sorts after every checkpoint's id."""


@dataclass
class Selection:
    """The oldest snapshot of each graph that is kept, by its namespace; `removed` have none."""

    oldest: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)


async def prune(
    database: Database[Connection],
    thread_id: str,
    checkpoint_id: str,
    fence: int,
    values: Values,
    since: float,
    *,
    dry_run: bool = False,
) -> int:
    """Remove the snapshots before one of a thread that is leased under this fence; returns how many.

    `since` is when the last of them that is listed was made. A `dry_run` removes none.

    What is kept reads as before. Kept are also the newest snapshot, those inside it, and those that a kept one lies in;
    of a graph that is not known all are.
    """
    selection = await database.read(partial(_select, thread_id, checkpoint_id))
    merged = {}
    for inside, oldest in selection.oldest.items():
        try:
            merged[inside] = await values(Place(thread_id, inside, oldest))
        except DamagedCheckpoint:
            continue  # its graph is not known here

    act = Act("pruned")

    def work(connection: Connection) -> int:
        check_fence(connection, thread_id, fence)
        connection.execute("SAVEPOINT pruning")
        for inside, found in merged.items():
            base = find(connection, thread_id, selection.oldest[inside])
            _merge(connection, base, found, {"segue_since": since if base.checkpoint_id == checkpoint_id else 0.0})
        bounds = {inside: selection.oldest[inside] for inside in merged} | dict.fromkeys(selection.removed, _END)
        removed = sum(_remove(connection, thread_id, inside, until) for inside, until in bounds.items())
        connection.state.drop_unused(thread_id)
        if dry_run:
            connection.execute("ROLLBACK TO pruning")
        connection.execute("RELEASE pruning")
        if removed and not dry_run:
            record(connection, act, thread_id)
        return removed

    return await database.write(work)


def _remove(connection: Connection, thread_id: str, inside: str, until: str) -> int:
    place = (thread_id, inside, until)
    connection.execute(_DELETE_SNAPSHOTS.format("writes"), place)
    return connection.execute(_DELETE_SNAPSHOTS.format("checkpoints"), place).rowcount


def _select(thread_id: str, checkpoint_id: str, connection: Connection) -> Selection:
    find(connection, thread_id, checkpoint_id)
    with decoding(thread_id):
        check_thread(connection, thread_id)
        rows = connection.execute(_ROWS, (thread_id,)).fetchall()
        outside = {row["checkpoint_id"]: json.loads(row["metadata"]).get("parents", {}) for row in rows}
    ids: dict[str, list[str]] = {}
    for row in rows:
        ids.setdefault(row["checkpoint_ns"], []).append(row["checkpoint_id"])
    kept = {row["checkpoint_id"] for row in rows if row["checkpoint_id"] >= checkpoint_id}
    # The newest snapshot of the thread's own graph, and those of the graphs that are under way inside it.
    newest = {inside: every[-1] for inside, every in ids.items()}
    for each in newest.values():
        if all(newest.get(graph) == parent for graph, parent in outside[each].items()):
            kept.add(each)
    kept |= {parent for each in kept for parent in outside[each].values()}
    selection = Selection()
    for inside, every in ids.items():
        oldest = next((each for each in every if each in kept), None)
        if oldest is None:
            selection.removed.add(inside)
        elif oldest != every[0] or (not inside and oldest < checkpoint_id):
            selection.oldest[inside] = oldest
    return selection


def _merge(connection: Connection, base: Checkpoint, values: Mapping[str, Any], noted: Mapping[str, Any]) -> None:
    """Make a snapshot the first of its graph: its logs are stored whole, and what its row said of the one before."""
    place = (base.thread_id, base.inside, base.checkpoint_id)
    metadata: dict[str, Any] = {**base.metadata, **noted}
    with decoding(base.thread_id):
        checkpoint = decoded_checkpoint(connection, SERDE, place)
    for log in metadata.pop(_COUNTED, {}):
        if log in values and log not in checkpoint["channel_values"]:
            checkpoint["channel_values"][log] = _DeltaSnapshot(values[log])
    metadata["segue_ran"], metadata[NEXT] = nodes_run(connection, base), following(connection, base)
    written, state = json.dumps(metadata, ensure_ascii=False), SERDE.plain_typed(checkpoint)
    connection.state.put_checkpoint(
        base.thread_id, CheckpointRow(base.inside, base.checkpoint_id, None, state, written)
    )


_GET = "SELECT * FROM sessions WHERE thread_id = ?"
_KNOWN = "SELECT 1 FROM tasks WHERE thread_id = ? LIMIT 1"
_IMPORTED = f"""
    SELECT 1 FROM checkpoints WHERE thread_id = ? AND CAST(metadata AS TEXT) LIKE '%"{IMPORTED}"%' LIMIT 1
"""
_OLDEST = "SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
_PUT = f"""
    {insert_into("sessions", names_of(Session))}
    ON CONFLICT (thread_id) DO UPDATE
    SET agent_id = excluded.agent_id, model = excluded.model, metadata = excluded.metadata,
        is_pinned = excluded.is_pinned, is_archived = excluded.is_archived
"""
_DELETE = "DELETE FROM {} WHERE thread_id = ?"
_RAISE_FLOOR = """
    INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES ('', '', ?, 0)
    ON CONFLICT (thread_id) DO UPDATE
    SET fence = CASE WHEN leases.fence > excluded.fence THEN leases.fence ELSE excluded.fence END
"""


def chosen_for(connection: Connection, thread_id: str) -> Session | None:
    rows = connection.fetched(_GET, (thread_id,))
    return from_row(Session, rows[0]) if rows else None


class Threads:
    """Threads, what was chosen for each, and their snapshots, copies and documents."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._database = backend.database

    async def get(self, thread_id: str) -> Session | None:
        """Return what was chosen for a thread, or None."""
        return await self._database.read(lambda connection: chosen_for(connection, thread_id))

    async def is_imported(self, thread_id: str) -> bool:
        """Whether the thread began from a document."""
        return bool(await self._database.read(lambda connection: connection.fetched(_IMPORTED, (thread_id,))))

    async def create(self, session: Session, *, title: str = "", key: RequestKey | None = None) -> None:
        """Store a thread without a task, its title, and that the idempotency key began it."""

        act = Act("created")

        def store(connection: Connection) -> None:
            add_key(connection, key, session.session_id)
            refuse_taken(connection, session.session_id)
            connection.execute(_PUT, _row(session))
            if title:
                name_thread(connection, session.session_id, title)
            record(connection, act, session.session_id, chosen=True)

        await self._database.write(store)

    async def put(self, session: Session) -> None:
        """Store what was chosen for a thread that is there."""
        act = Act("chose")

        def store(connection: Connection) -> None:
            _check_known(connection, session.session_id)
            _choose(connection, session, act)

        await self._database.write(store)

    async def change(self, thread_id: str, changes: SessionChanges, now: float) -> None:
        """Store all that changes of a thread, or nothing: what is its whole conversation's with the other branches."""
        act = Act("chose")

        def store(connection: Connection) -> None:
            _check_known(connection, thread_id)
            branches = branches_of(connection, thread_id)
            root = branches[0].session_id if branches else thread_id
            chosen_of = {thread_id: {**changes.choices}}
            chosen_of[root] = {**chosen_of.get(root, {}), **changes.flags}
            for name, changed in chosen_of.items():
                if changed:
                    chosen = chosen_for(connection, name) or Session(name, created_at=now)
                    _choose(connection, replace(chosen, **changed), act)
            if changes.title is not None and not (changes.is_made and is_titled(connection, thread_id)):
                for name in {thread_id, *(each.session_id for each in branches)}:
                    if name == thread_id or connection.fetched(_KNOWN, (name,)):
                        name_thread(connection, name, changes.title)

        await self._database.write(store)

    async def branches(self, thread_id: str) -> list[Branch]:
        """The branches of a thread's conversation, its first thread at the beginning; empty where it has none.

        Those that cannot be read are left out.
        """
        return await self._database.read(lambda connection: branches_of(connection, thread_id))

    async def delete(self, thread_id: str, fence: int) -> None:
        """Delete every row of a thread that is leased under this fence, and its lease; a file still holds their bytes.

        A thread of the same name begins with a higher fence, so that no former owner can write to it.
        """

        act = Act(DELETED)

        def work(connection: Connection) -> None:
            connection.execute(_RAISE_FLOOR, (fence,))  # first, as whoever takes a lease looks there first
            check_fence(connection, thread_id, fence)
            remove_thread(connection, thread_id)
            deleted = {table: connection.execute(_DELETE.format(table), (thread_id,)).rowcount for table in OF_SESSIONS}
            if not (delete_rows(connection, thread_id) or any(deleted[table] for table in RECOVERED)):
                raise UnknownThread(thread_id)
            delete_of_thread(connection, thread_id, act.actor)
            record(connection, act, thread_id)

        await self._database.write(work, synced=True)

    async def snapshots(self, thread_id: str, limit: int = 50, before: str | None = None) -> list[Snapshot]:
        return await self._database.read(lambda connection: snapshots(connection, thread_id, limit, before))

    async def find_place(self, text: str, thread_id: str | None = None) -> Place:
        return await self._database.read(lambda connection: find_place(connection, text, thread_id))

    async def oldest_checkpoint_time(self, thread_id: str) -> float:
        """When the thread's oldest checkpoint was made; 0 where that is not known, or there is none."""
        rows = await self._database.read(lambda connection: connection.fetched(_OLDEST, (thread_id,)))
        with suppress(ValueError, TypeError, AttributeError):
            return seconds_of(rows[0][0])
        return 0.0

    async def snapshot(self, place: Place) -> Snapshot:
        return await self._database.read(lambda connection: snapshot(connection, place))

    async def origins(self, thread_id: str, after: float = 0.0) -> Mapping[tuple[str, str, int], CallOrigin]:
        return await self._database.read(partial(origins, thread_id, after))

    async def fork(
        self,
        thread_id: str,
        checkpoint_id: str,
        new_thread_id: str,
        beside: Iterable[tuple[str, str]] = (),
        *,
        blocked: bool = False,
        key: RequestKey | None = None,
        branch: Branch | None = None,
    ) -> str | None:
        """Copy a thread as `sessions.fork.fork` describes it; as a `branch` of it where that is given."""
        others = tuple(beside)
        act = branched(branch) if branch else Act("forked", {"from": thread_id, "checkpoint_id": checkpoint_id})

        def copy(connection: Connection) -> str | None:
            about: Json = {"blocked": blocked, "key": key, "by": act.actor}
            task_id = fork(connection, thread_id, checkpoint_id, new_thread_id, others, **about)
            if branch:
                put_branch(connection, branch)
            for name in (new_thread_id, *(copied for _, copied in others)):
                record(connection, act, name, whole=True)
            return task_id

        return await self._database.write(copy)

    async def export(self, thread_id: str) -> Json:
        document = await self._database.read(lambda connection: export(connection, thread_id))
        await Audit(self._database).record(Act("exported"), thread_id)
        return document

    async def import_(
        self,
        document: Any,
        thread_id: str,
        user_id: str | None = None,
        *,
        key: RequestKey | None = None,
        uploads: Uploads = (),
    ) -> str | None:
        """Store a document as a new thread, which takes the uploads along.

        Returns the id of its newest task, None where it has none.
        """
        read, act = read_import(document), Act("imported")

        def store(connection: Connection) -> None:
            store_import(connection, read, thread_id, user_id, key)
            take_along(connection, uploads)
            record(connection, act, thread_id, whole=True)

        await self._database.write(store)
        return read.newest

    async def threads(self) -> list[str]:
        return await self._database.read(threads_of)

    async def read_whole(self, thread_id: str) -> WholeThread:
        return await self._database.read(lambda connection: read_thread(connection, thread_id))

    async def store_whole(self, whole: WholeThread) -> bool:
        act = Act("copied")

        def store(connection: Connection) -> bool:
            stored = store_thread(connection, whole)
            if stored:
                record(connection, act, whole.thread_id, whole=True)
            return stored

        return await self._database.write(store)

    async def prune(
        self, thread_id: str, checkpoint_id: str, fence: int, values: Values, since: float, *, dry_run: bool = False
    ) -> int:
        return await prune(self._database, thread_id, checkpoint_id, fence, values, since, dry_run=dry_run)

    async def recover(self, saver: FencedSaver, readable: Readable, thread_id: str, language: Language) -> Recovery:
        return await recover(self._database, saver, readable, thread_id, language, self._backend.copy_aside)


def _check_known(connection: Connection, thread_id: str) -> None:
    if not connection.fetched(_KNOWN, (thread_id,)) and not connection.fetched(_GET, (thread_id,)):
        raise UnknownThread(thread_id)


def _choose(connection: Connection, session: Session, act: Act) -> None:
    connection.execute(_PUT, _row(session))
    record(connection, act, session.session_id, chosen=True)


def _row(session: Session) -> dict[str, object]:
    return to_row(Session, vars(session))


_Undos = dict[tuple[str, str, int], list[Call]]

# A copy keeps everything but the ids of its task and its thread; it comes later.
_ORIGINALS = """
    SELECT mine.position AS copy, min(other.position) AS original
    FROM calls AS mine JOIN calls AS other USING (started_at, name, arguments, idx, scope)
    WHERE mine.thread_id = ? AND mine.started_at > ? GROUP BY mine.position ORDER BY mine.position
"""
_MINE = "SELECT * FROM calls WHERE thread_id = ? AND started_at > ?"
_CALL = "SELECT * FROM calls WHERE position = ?"
_UNDOS = "SELECT * FROM calls WHERE thread_id = ? AND scope LIKE ? ORDER BY position"


def origins(thread_id: str, after: float, connection: Connection) -> dict[tuple[str, str, int], CallOrigin]:
    """The origin of each of the thread's calls that began after a moment, by its task, scope and index."""
    found: dict[tuple[str, str, int], CallOrigin] = {}
    undos: dict[str, _Undos] = {}
    place = (thread_id, after)
    calls = {row["position"]: from_row(Call, row) for row in connection.fetched(_MINE, place)}
    for copy, position in connection.execute(_ORIGINALS, place).fetchall():
        if position not in calls:
            calls[position] = from_row(Call, connection.fetched(_CALL, (position,))[0])
        mine, original = calls[copy], calls[position]
        if original.session_id not in undos:
            undos[original.session_id] = _undos_in(connection, original.session_id)
        of_it = undos[original.session_id].get((original.task_id, original.scope, original.idx), ())
        found[mine.task_id, mine.scope, mine.idx] = CallOrigin(original, tuple(of_it))
    return found


def _undos_in(connection: Connection, thread_id: str) -> _Undos:
    """The undos in a thread, by the task, scope and index of the calls that they undo."""
    found: _Undos = {}
    for row in connection.fetched(_UNDOS, (thread_id, f"{UNDO_SCOPE}%")):
        undo = from_row(Call, row)
        scope = undo.scope.removeprefix(UNDO_SCOPE).rpartition(":")[0]
        found.setdefault((undo.task_id, scope, undo.idx), []).append(undo)
    return found


# The preferences of users: the default mode, and the rated history of modes.


@dataclass(frozen=True)
class _Rated:
    """What the history needs of a task."""

    message: str
    result: Annotated[Json | None, STORED_AS_JSON]
    rating: Literal[1, 2, 3, 4, 5] | None


_DEFAULT = "SELECT * FROM preferences WHERE user_id = ?"
# A copy counts where it was rated itself, or where its original is in another database.
_HISTORY = """
    SELECT message, result, rating, position FROM tasks
    WHERE user_id = ? AND position < ? AND result IS NOT NULL
        AND (rating IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tasks AS own WHERE own.task_id = tasks.copy_of))
    ORDER BY position DESC LIMIT ?
"""
_PUT_PREFERENCE = """
    INSERT INTO preferences (user_id, default_mode) VALUES (?, ?)
    ON CONFLICT (user_id) DO UPDATE SET default_mode = excluded.default_mode
"""
_RATE = "UPDATE tasks SET rating = ? WHERE task_id = ? RETURNING thread_id"


def default_mode(connection: Connection, user_id: str) -> str:
    """The user's default mode; empty where none is set, or it cannot be read."""
    found = readable(Preference, connection.fetched(_DEFAULT, (user_id,)))
    return found[0].default_mode if found else ""


class Preferences:
    """The preferences of every user."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def default_mode(self, user_id: str) -> str:
        """The user's default mode; empty where none is set."""
        return await self._database.read(lambda connection: default_mode(connection, user_id))

    async def get(self, user_id: str, limit: int = 50) -> UserPreferences:
        """The user's default mode, and the modes that answered them; what cannot be read is left out."""
        history = await self._database.read(partial(_history, user_id, limit))
        return UserPreferences(await self.default_mode(user_id), history)

    async def put(self, user_id: str, default_mode: str) -> None:
        """Set a user's default mode, which the caller has checked; an empty one takes it back."""
        await self._database.write(lambda connection: connection.execute(_PUT_PREFERENCE, (user_id, default_mode)))

    async def rate(self, task_id: str, rating: object) -> None:
        """Rate a task's answer, in place of an earlier rating."""
        if isinstance(rating, bool) or not isinstance(rating, int) or not 1 <= rating <= BEST:
            raise InvalidAnswer(
                "The rating {rating} is not valid: give a whole number from 1 to {most}.",
                rating=repr(rating),
                most=BEST,
            )

        act = Act("rated", {"rating": rating})

        def store(connection: Connection) -> None:
            row = connection.execute(_RATE, (rating, task_id)).fetchone()
            if row is None:
                raise UnknownTask(task_id)
            record(connection, act, row["thread_id"], task_id)

        await self._database.write(store)


def _history(user_id: str, limit: int, connection: Connection) -> list[RatedAnswer]:
    """The newest answers of a user: a task has one where its result names the mode."""
    found: list[RatedAnswer] = []
    before = ALL
    while len(found) < limit and (rows := connection.fetched(_HISTORY, (user_id, before, limit))):
        before = rows[-1]["position"]
        for row in rows:
            values, faults = read(_Rated, row)
            mode = (values.get("result") or {}).get("mode")
            if not faults and isinstance(mode, str):
                found.append(RatedAnswer(values["message"], mode, values["rating"]))
    return found[:limit]
