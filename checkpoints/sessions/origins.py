"""The original of each call of a thread, of which forks have copies, and the undos of it."""

from segue.core.records import Call, from_row
from segue.core.timeline import UNDO_SCOPE, CallOrigin

from ..connection import Connection

# A copy keeps everything but the ids of its task and its thread; it comes later.
_ORIGINALS = """
    SELECT mine.position AS copy, min(other.position) AS original
    FROM calls AS mine JOIN calls AS other USING (started_at, name, arguments, idx, scope)
    WHERE mine.thread_id = ? GROUP BY mine.position ORDER BY mine.position
"""
_CALL = "SELECT * FROM calls WHERE position = ?"
_UNDOS = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? AND scope LIKE ? ORDER BY position"


def origins(thread_id: str, connection: Connection) -> dict[tuple[str, str, int], CallOrigin]:
    """The origin of each of the thread's calls, by its task, scope and index."""
    found: dict[tuple[str, str, int], CallOrigin] = {}
    undos: dict[tuple[str, str], list[Call]] = {}
    for pair in connection.execute(_ORIGINALS, (thread_id,)).fetchall():
        mine, original = (_call(connection, pair[name]) for name in ("copy", "original"))
        task = (original.thread_id, original.task_id)
        if task not in undos:
            undos[task] = [from_row(Call, row) for row in connection.fetched(_UNDOS, (*task, f"{UNDO_SCOPE}%"))]
        scope = f"{UNDO_SCOPE}{original.scope}"
        of_it = [each for each in undos[task] if (each.scope.rpartition(":")[0], each.idx) == (scope, original.idx)]
        found[mine.task_id, mine.scope, mine.idx] = CallOrigin(original, tuple(of_it))
    return found


def _call(connection: Connection, position: int) -> Call:
    return from_row(Call, connection.fetched(_CALL, (position,))[0])
