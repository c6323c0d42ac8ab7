"""Whole threads of a database."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from segue.core.errors import UnknownThread
from segue.core.records import Call, Json, Recovery, RequestKey, Session, from_row
from segue.core.timeline import UNDO_SCOPE, CallOrigin, Place, Snapshot
from segue.prompts.language import Language

from ..ports import Backend, Connection
from ..sessions.recover import recover
from ..sessions.survey import Readable
from ..state.checkpoint_ids import seconds_of
from ..state.rows import delete_rows
from ..state.saver import FencedSaver
from ..tables.leases import check_fence
from ..tables.request_keys import add_key
from .export import IMPORTED, WholeThread, export, read_import, read_thread, store_import, store_thread, threads_of
from .fork import fork, refuse_taken
from .retention import Values, prune
from .snapshots import find_place, snapshot, snapshots

_GET = "SELECT * FROM sessions WHERE thread_id = ?"
_KNOWN = "SELECT 1 FROM tasks WHERE thread_id = ? LIMIT 1"
_IMPORTED = f"""
    SELECT 1 FROM checkpoints WHERE thread_id = ? AND CAST(metadata AS TEXT) LIKE '%"{IMPORTED}"%' LIMIT 1
"""
_OLDEST = "SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = ?"
_PUT = """
    INSERT INTO sessions (thread_id, agent_id, model, metadata, created_at)
    VALUES (:thread_id, :agent_id, :model, :metadata, :created_at)
    ON CONFLICT (thread_id) DO UPDATE
    SET agent_id = excluded.agent_id, model = excluded.model, metadata = excluded.metadata
"""
_DELETE = "DELETE FROM {} WHERE thread_id = ?"
_RAISE_FLOOR = """
    INSERT INTO leases (thread_id, owner, fence, expires_at) VALUES ('', '', ?, 0)
    ON CONFLICT (thread_id) DO UPDATE
    SET fence = CASE WHEN leases.fence > excluded.fence THEN leases.fence ELSE excluded.fence END
"""


class Threads:
    """Threads, what was chosen for each, and their snapshots, copies and documents."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._database = backend.database

    async def get(self, thread_id: str) -> Session | None:
        """Return what was chosen for a thread, or None.

        Raises:
            DamagedRow: it cannot be read.
        """
        rows = await self._database.read(lambda connection: connection.fetched(_GET, (thread_id,)))
        return from_row(Session, rows[0]) if rows else None

    async def is_imported(self, thread_id: str) -> bool:
        """Whether the thread began from a document."""
        return bool(await self._database.read(lambda connection: connection.fetched(_IMPORTED, (thread_id,))))

    async def create(self, session: Session, *, key: RequestKey | None = None) -> None:
        """Store a thread without a task, and that the idempotency key began it.

        Raises:
            ThreadExists, ThreadBusy, KeyUsed: nothing was stored.
        """

        def store(connection: Connection) -> None:
            add_key(connection, key, session.thread_id)
            refuse_taken(connection, session.thread_id)
            connection.execute(_PUT, _row(session))

        await self._database.write(store)

    async def put(self, session: Session) -> None:
        """Store what was chosen for a thread that is there.

        Raises:
            UnknownThread: it has neither a task nor anything chosen.
        """

        def store(connection: Connection) -> None:
            thread_id = (session.thread_id,)
            if not connection.fetched(_KNOWN, thread_id) and not connection.fetched(_GET, thread_id):
                raise UnknownThread(session.thread_id)
            connection.execute(_PUT, _row(session))

        await self._database.write(store)

    async def delete(self, thread_id: str, fence: int) -> None:
        """Delete every row of a thread that is leased under this fence, and its lease.

        A thread of the same name begins with a higher fence, so that no former owner can write to it.

        Raises:
            UnknownThread: it has no rows; nothing was changed.
            StaleOwner: another owner took the thread; nothing was changed.
            DatabaseUnavailable: the rows are deleted or nothing was changed; a file may still hold their bytes.
        """

        def work(connection: Connection) -> None:
            connection.execute(_RAISE_FLOOR, (fence,))  # first, as whoever takes a lease looks there first
            check_fence(connection, thread_id, fence)
            deleted = [_delete_from(connection, table, thread_id) for table in ("tasks", "events", "calls", "sessions")]
            if not (delete_rows(connection, thread_id) or any(deleted)):
                raise UnknownThread(thread_id)
            for table in ("leases", "lease_queue", "permissions", "titles", "request_keys"):
                _delete_from(connection, table, thread_id)

        await self._database.write(work, synced=True)
        await self._backend.compact()

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
    ) -> str | None:
        """Copy a thread as `sessions.fork.fork` describes it."""
        others = tuple(beside)
        return await self._database.write(
            lambda connection: fork(
                connection, thread_id, checkpoint_id, new_thread_id, others, blocked=blocked, key=key
            )
        )

    async def export(self, thread_id: str) -> Json:
        return await self._database.read(lambda connection: export(connection, thread_id))

    async def import_(
        self, document: Any, thread_id: str, user_id: str | None = None, *, key: RequestKey | None = None
    ) -> str | None:
        """Store a document as a new thread; returns the id of its newest task, None where it has none."""
        read = read_import(document)
        await self._database.write(lambda connection: store_import(connection, read, thread_id, user_id, key))
        return read.newest

    async def threads(self) -> list[str]:
        return await self._database.read(threads_of)

    async def read_whole(self, thread_id: str) -> WholeThread:
        return await self._database.read(lambda connection: read_thread(connection, thread_id))

    async def store_whole(self, whole: WholeThread) -> bool:
        return await self._database.write(lambda connection: store_thread(connection, whole))

    async def prune(
        self, thread_id: str, checkpoint_id: str, fence: int, values: Values, since: float, *, dry_run: bool = False
    ) -> int:
        return await prune(self._database, thread_id, checkpoint_id, fence, values, since, dry_run=dry_run)

    async def recover(self, saver: FencedSaver, readable: Readable, thread_id: str, language: Language) -> Recovery:
        return await recover(self._database, saver, readable, thread_id, language, self._backend.copy_aside)


def _row(session: Session) -> dict[str, object]:
    return {**asdict(session), "metadata": json.dumps(dict(session.metadata))}


def _delete_from(connection: Connection, table: str, thread_id: str) -> int:
    return connection.execute(_DELETE.format(table), (thread_id,)).rowcount


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
            calls[position] = _call(connection, position)
        mine, original = calls[copy], calls[position]
        if original.thread_id not in undos:
            undos[original.thread_id] = _undos_in(connection, original.thread_id)
        of_it = undos[original.thread_id].get((original.task_id, original.scope, original.idx), ())
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


def _call(connection: Connection, position: int) -> Call:
    return from_row(Call, connection.fetched(_CALL, (position,))[0])
