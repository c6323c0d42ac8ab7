"""The original of each call of a thread, of which forks have copies, and the undos of it."""

from segue.core.records import Call, from_row
from segue.core.timeline import UNDO_SCOPE, CallOrigin

from ..ports import Connection

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
