"""Keys of the rows of checkpoints and writes: sealed with a checksum when written, checked when read."""

import json
from collections.abc import Collection, Mapping, Sequence, Set
from contextlib import closing
from typing import Any, NamedTuple

from ..ports import Connection, Place, Row
from .compression import Undecodable
from .serializer import check_key, key_checksum

CHECKPOINT_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
WRITE_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel")
WHOLE = 12
"""So many newest checkpoints of a thread's own graph keep all writes upon them: those of two turns."""
_GIVEN = "00000000-0000-0000-0000-000000000000"
"""LangGraph's task of what came from outside: it is applied again where LangGraph goes back to the checkpoint."""

_AT = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_CHANNELS = f"SELECT channel FROM writes WHERE {_AT}"
_DROP = f"""
    DELETE FROM writes WHERE {_AT} AND task_id <> ?
        AND channel <> '__pregel_tasks' AND substr(channel, 1, 10) <> 'branch:to:' AND channel NOT IN ({{}})
"""
_NEWEST = f"""
    WITH RECURSIVE newest(id, parent, place) AS (
        SELECT checkpoint_id, parent_checkpoint_id, 1 FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :parent
        UNION ALL
        SELECT checkpoint_id, parent_checkpoint_id, place + 1 FROM newest CROSS JOIN checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = newest.parent AND place < {WHOLE}
    )
    SELECT id FROM newest ORDER BY place
"""
_METADATA = f"SELECT CAST(metadata AS TEXT) FROM checkpoints WHERE {_AT}"
_CHECKED = (*CHECKPOINT_KEY, "kept_writes", "checksum")
_CHECKPOINT_COLUMNS = ", ".join(
    [*(f"checkpoints.{name}" for name in _CHECKED), "CAST(checkpoints.metadata AS TEXT) AS metadata"]
)
_CHECKPOINT = f"SELECT {_CHECKPOINT_COLUMNS} FROM checkpoints WHERE {_AT}"
_WRITE_COLUMNS = f"{', '.join(WRITE_KEY)}, checksum"
_CHECKPOINTS = f"SELECT {', '.join(_CHECKED)} FROM checkpoints WHERE thread_id = ?"
_WRITES = f"SELECT {_WRITE_COLUMNS} FROM writes WHERE thread_id = ?"
_WRITTEN = f"""
    SELECT {_WRITE_COLUMNS} FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id IN ({{}})
"""
_PAGE = 64
"""Checkpoints of a chain that are read at once."""
_CHAIN = f"""
    WITH RECURSIVE chain({", ".join(_CHECKED)}, metadata, place) AS (
        SELECT {_CHECKPOINT_COLUMNS}, 1 FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id
        UNION ALL
        SELECT {_CHECKPOINT_COLUMNS}, place + 1 FROM chain CROSS JOIN checkpoints
        WHERE checkpoints.thread_id = :thread AND checkpoints.checkpoint_ns = :ns
            AND checkpoints.checkpoint_id = chain.parent_checkpoint_id AND place < {_PAGE}
    )
    SELECT * FROM chain
"""
# A newer one that is there was added since the thread was read.
_LATER = """
    SELECT checkpoint_id FROM writes
    WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id > ? AND NOT EXISTS (
        SELECT 1 FROM checkpoints
        WHERE (checkpoints.thread_id, checkpoints.checkpoint_ns, checkpoints.checkpoint_id)
            = (writes.thread_id, writes.checkpoint_ns, writes.checkpoint_id)
    ) LIMIT 1
"""


def kept_writes(connection: Connection, key: Sequence[Any], metadata: str) -> int:
    """How many of the writes that led to a checkpoint are read once it is stored.

    Logs are rebuilt from the writes to them, and the other channels tell which nodes ran.
    """
    thread_id, ns, _, parent = key
    logs = logs_of(metadata)
    channels = [row["channel"] for row in connection.execute(_CHANNELS, (thread_id, ns, parent)).fetchall()]
    return sum(_is_kept(channel, logs) for channel in channels)


def sealed_checkpoint(connection: Connection, key: Sequence[Any], metadata: str) -> tuple[int, int]:
    """The columns `kept_writes` and `checksum` of a checkpoint that is stored under a key."""
    kept = kept_writes(connection, key, metadata)
    return kept, key_checksum(*key, kept)


def drop_passed(connection: Connection, place: Place, metadata: str) -> None:
    """Delete what nobody reads any more of the writes upon a checkpoint, with which a newer one is stored.

    In a thread's own graph they are those that are WHOLE checkpoints back: a recovery that goes back less far applies
    them again.
    """
    thread_id, ns, parent = place
    if ns:
        _drop(connection, place, metadata)
        return
    newest = connection.execute(_NEWEST, {"thread": thread_id, "ns": ns, "parent": parent}).fetchall()
    if len(newest) == WHOLE:
        (after,), (passed,) = newest[-2:]
        noted = connection.execute(_METADATA, (thread_id, ns, after)).fetchone()[0]
        _drop(connection, (thread_id, ns, passed), noted)


def _drop(connection: Connection, place: Place, metadata: str) -> None:
    logs = sorted(logs_of(metadata)) or [""]
    connection.execute(_DROP.format(", ".join("?" * len(logs))), (*place, _GIVEN, *logs))


def check_newest(connection: Connection, place: Place) -> None:
    """Make sure that no newer checkpoint of the thread was lost: nothing was written upon one.

    Raises:
        Undecodable
    """
    if row := connection.execute(_LATER, place).fetchone():
        raise Undecodable(f"its newest checkpoint {row[0]} is missing")


def check_checkpoint(connection: Connection, place: Place) -> None:
    """Check the keys of a checkpoint and of what was written upon it, and that its parent is there.

    Raises:
        Undecodable
    """
    if row := _row(connection, place):
        connection.state.check_values(place)
        _written(connection, place, [place[2]])
        _parent(connection, row)


def check_chain(connection: Connection, place: Place, logs: Collection[str]) -> None:
    """As `check_checkpoint`, for each checkpoint from which logs are rebuilt: back to where each was stored whole.

    Raises:
        Undecodable
    """
    if chain := _chain(connection, place, logs):
        _parent(connection, chain[-1].row)


def needed(connection: Connection, place: Place) -> list[str]:
    """A checkpoint and those before it that its logs are rebuilt from: back to where each was stored whole.

    Raises:
        Undecodable
    """
    row = _row(connection, place)
    if row is None:
        return [place[2]]
    logs = logs_of(row["metadata"])
    chain = _chain(connection, place, logs)
    if not chain[-1].logs.isdisjoint(logs):
        _parent(connection, chain[-1].row)
    return [link.row["checkpoint_id"] for link in chain]


class _Link(NamedTuple):
    """A checkpoint of a chain, and the logs that are not stored whole in it."""

    row: Row
    logs: Set[str]


def _chain(connection: Connection, place: Place, logs: Collection[str]) -> list[_Link]:
    """A checkpoint and those before it that are there, to the first with all logs; what led to each is checked.

    Raises:
        Undecodable
    """
    chain: list[_Link] = []
    begin: str | None = place[2]
    while begin is not None:
        page = _page(connection, (*place[:2], begin), logs)
        _check_links(connection, place, [*chain[-1:], *page])
        chain += page
        more = len(page) == _PAGE and not page[-1].logs.isdisjoint(logs)
        begin = page[-1].row["parent_checkpoint_id"] if more else None
    return chain


def _page(connection: Connection, place: Place, logs: Collection[str]) -> list[_Link]:
    """A part of a chain, in which each row leads to the next; SQLite reads only one beyond its end."""
    page: list[_Link] = []
    with closing(connection.execute(_CHAIN, dict(zip(("thread", "ns", "id"), place, strict=True)))) as rows:
        for row in rows:
            page.append(_Link(row, logs_of(row["metadata"])))
            if page[-1].logs.isdisjoint(logs):
                break
    return page


def _check_links(connection: Connection, place: Place, chain: Sequence[_Link]) -> None:
    """Check of each checkpoint but the last one what was written upon the one before it."""
    parents = [link.row["checkpoint_id"] for link in chain[1:]]
    written = _written(connection, place, parents)
    for link, parent_id in zip(chain, parents, strict=False):
        _check_link(link, written.get(parent_id, ()))


def check_thread(connection: Connection, thread_id: str) -> None:
    """Check the keys of all rows of a thread.

    Raises:
        Undecodable
    """
    for row in connection.execute(_CHECKPOINTS, (thread_id,)).fetchall():
        check_checkpoint_key(row)
    for row in connection.execute(_WRITES, (thread_id,)).fetchall():
        check_key(row["checksum"], *(row[name] for name in WRITE_KEY))


def check_checkpoint_key(row: Row) -> None:
    """Make sure that a checkpoint has the key that it was stored under.

    Raises:
        Undecodable
    """
    check_key(row["checksum"], *(row[name] for name in (*CHECKPOINT_KEY, "kept_writes")))


def logs_of(metadata: str) -> Set[str]:
    """The logs that are not stored whole in a checkpoint, by its metadata; none where those are malformed."""
    try:
        form = json.loads(metadata or "{}")
    except ValueError:
        return set()
    counted = form.get("counters_since_delta_snapshot") if isinstance(form, Mapping) else None
    return counted.keys() if isinstance(counted, Mapping) else set()


def _row(connection: Connection, place: Place) -> Row | None:
    row: Row | None = connection.execute(_CHECKPOINT, place).fetchone()
    return row


def _parent(connection: Connection, row: Any) -> Row | None:
    """The checkpoint before, whose writes led to this one."""
    thread_id, ns, _, parent_id = (row[name] for name in CHECKPOINT_KEY)
    check_checkpoint_key(row)
    if parent_id is None:
        return None
    parent = _row(connection, (thread_id, ns, parent_id))
    if parent is None:
        raise Undecodable(f"it builds on checkpoint {parent_id}, which is missing")
    written = _written(connection, (thread_id, ns, parent_id), [parent_id])
    _check_link(_Link(row, logs_of(row["metadata"])), written.get(parent_id, ()))
    return parent


def _check_link(link: _Link, channels: Sequence[str]) -> None:
    """Check a checkpoint's key, and that all channels are there that were written to upon the one before."""
    check_checkpoint_key(link.row)
    found = sum(_is_kept(channel, link.logs) for channel in channels)
    if found < (link.row["kept_writes"] or 0):
        raise Undecodable(f"a part of what was written upon checkpoint {link.row['parent_checkpoint_id']} is missing")


def _is_kept(channel: str, logs: Collection[str]) -> bool:
    return channel.startswith("branch:to:") or channel == "__pregel_tasks" or channel in logs


def _written(connection: Connection, place: Place, ids: Sequence[str]) -> dict[str, list[str]]:
    """The channels that were written to upon checkpoints of a thread, by their ids; all keys are checked."""
    channels: dict[str, list[str]] = {}
    if ids:
        asked = _WRITTEN.format(", ".join("?" * len(ids)))
        for row in connection.execute(asked, (*place[:2], *ids)).fetchall():
            check_key(row["checksum"], *(row[name] for name in WRITE_KEY))
            channels.setdefault(row["checkpoint_id"], []).append(str(row["channel"]))
    return channels
