"""The readable checkpoints of a damaged thread, in its own graph and in those that run inside it."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple

from segue.core.errors import DamagedCheckpoint, NothingReadable, UnknownThread

from ..ports import Connection, Database, Place
from ..state.checkpoint_ids import seconds_of
from ..state.checksums import RETAINED, WRITE_COLUMNS
from ..state.saver import FencedSaver
from ..state.serializer import Undecodable, check_form, decoding

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
        """Find out what is damaged.

        Raises:
            UnknownThread: it has no checkpoint.
            NothingReadable: it has none that can be read.
        """
        ids = await self._ids()
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
        damage.strays = await self._database.read(self._count_strays)
        if damage.strays:
            damage.unknown_since = min(damage.unknown_since, outermost.at)
        damage.reason = self._reason or ("a checkpoint is missing" if damage.strays else "")
        return damage

    def _count_strays(self, connection: Connection) -> int:
        return int(connection.execute(_STRAYS, {"thread": self._thread_id}).fetchone()[0])

    async def _ids(self) -> dict[str, list[str]]:
        """The thread's checkpoints by namespace, newest first."""
        rows = await self._database.read(lambda connection: connection.execute(_IDS, (self._thread_id,)).fetchall())
        ids: dict[str, list[str]] = {}
        for ns, checkpoint_id in rows:
            ids.setdefault(ns, []).append(checkpoint_id)
        return ids

    async def _newest(self, ns: str, ids: Sequence[str]) -> NewestReadable | None:
        for place, checkpoint_id in enumerate(ids):
            try:
                return await self._inspect(ns, checkpoint_id, ids[:place])
            except DamagedCheckpoint as error:
                self._reason = self._reason or error.reason
        return None

    async def _inspect(self, ns: str, checkpoint_id: str, newer: Sequence[str]) -> NewestReadable:
        """Read a checkpoint with everything that its state is made of.

        Raises:
            DamagedCheckpoint: that cannot be done. Damaged writes upon it are no hindrance, they make the next one.
        """
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
        """Read the logs at a checkpoint; return the damaged ones before it that they can be read without.

        Raises:
            DamagedCheckpoint: they cannot be read.
        """
        try:
            await self._saver.aget_delta_channel_history(config=config, channels=logs)
            return []
        except DamagedCheckpoint as error:
            unreadable = await self._unreadable_before(key, logs)
            self._reason = self._reason or error.reason
            return unreadable

    async def _unreadable_before(self, key: Place, logs: Collection[str]) -> list[str]:
        """The damaged checkpoints behind one that logs can be rebuilt without: they hold no beginning of a log.

        Raises:
            DamagedCheckpoint: one of them does, or is missing, or what was written upon one is damaged.
        """
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
