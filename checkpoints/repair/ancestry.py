"""The checkpoints that a log is rebuilt from, where some of them are damaged."""

import json
from collections.abc import Collection
from typing import Any

from segue.core.errors import DamagedCheckpoint

from ..ports import Database
from ..state.compression import Undecodable
from ..state.saver import FencedSaver
from ..state.serializer import decoding

_PLACE = "thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
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
_METADATA = f"SELECT CAST(metadata AS TEXT) FROM checkpoints WHERE {_PLACE}"
_WRITES = f"SELECT channel, type, value FROM writes WHERE {_PLACE}"


class Ancestry:
    """Looks behind the checkpoints of one namespace of a thread; changes nothing."""

    def __init__(self, database: Database[Any], saver: FencedSaver, thread_id: str, ns: str) -> None:
        self._database = database
        self._saver = saver
        self._thread_id = thread_id
        self._ns = ns

    async def unreadable(self, checkpoint_id: str, logs: Collection[str]) -> list[str]:
        """The damaged checkpoints behind one that logs can be rebuilt without: they hold no beginning of a log.

        Raises:
            DamagedCheckpoint: one of them does, or is missing, or what was written upon one is damaged.
        """
        values = {"thread_id": self._thread_id, "ns": self._ns, "id": checkpoint_id}
        chain = await self._database.read(lambda connection: connection.execute(_CHAIN, values).fetchall())
        left = set(logs)
        unreadable: list[str] = []
        for ancestor, _ in chain[1:]:
            if not left:
                return unreadable
            await self._check_writes(ancestor, left)
            begun = await self._beginnings(ancestor, left)
            if begun is None:
                unreadable.append(ancestor)
            else:
                left -= begun
        if left and chain[-1]["parent"] is not None:
            raise DamagedCheckpoint(self._thread_id, f"it builds on checkpoint {chain[-1]['parent']}, which is missing")
        return unreadable

    async def _beginnings(self, checkpoint_id: str, logs: Collection[str]) -> set[str] | None:
        """The channels that a checkpoint holds the values of; None where it is damaged and no log begins in it."""
        key = (self._thread_id, self._ns, checkpoint_id)
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

    async def _check_writes(self, checkpoint_id: str, logs: Collection[str]) -> None:
        key = (self._thread_id, self._ns, checkpoint_id)
        rows = await self._database.read(lambda connection: connection.fetched(_WRITES, key))
        with decoding(self._thread_id):
            for channel, kind, value in rows:
                if channel in logs:
                    await self._saver.load(self._thread_id, kind, value)
