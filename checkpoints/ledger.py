"""The tool ledger: intent, then run, then outcome, so that no tool call is ever run twice."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any

from segue.core.calls import CallKey, CallResult, CallStatus, Claim
from segue.core.errors import StorageError
from segue.core.records import FIXED, Call, Json, call_checksum, from_row, names_of

from .audit import reseal
from .leases import check_fence
from .ports import ALL, Connection, Database, Row, set_columns
from .schema import insert_row

_FIND = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? AND scope = ? AND idx = ?"
_LIKE = """
    SELECT scope, name, arguments, outcome FROM calls
    WHERE thread_id = ? AND task_id = ? AND (name = ? AND arguments = ? OR substr(scope, 1, 8) = 'damaged#')
"""
"""Calls like a new one, and those that recovery set aside: one of them may have been in its place."""
_ORPHAN = """
    SELECT * FROM calls WHERE thread_id = ? AND task_id = ? AND name = ? AND arguments = ? AND orphaned = 1
    ORDER BY position LIMIT 1
"""
_UPDATE = f"UPDATE calls SET {set_columns([*names_of(Call, without=FIXED), 'checksum'])} WHERE position = :position"
_WITHDRAW = """
    DELETE FROM calls
    WHERE thread_id = ? AND task_id = ? AND scope = ? AND idx = ? AND fence = ?
      AND state = 'running' AND outcome IS NULL
"""
_OF_TASK = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? ORDER BY position LIMIT ? OFFSET ?"
_LATER = "SELECT * FROM calls WHERE thread_id = ? AND started_at > ? ORDER BY position"
_UNDER_WAY = "SELECT * FROM calls WHERE thread_id = ? AND task_id = ? AND state = 'running' ORDER BY position"
_FINISHED = "SELECT * FROM calls WHERE thread_id = ? AND state = 'done' AND orphaned = 0 ORDER BY position"
_FINISHED_CHECKSUMS = "SELECT position, checksum FROM calls WHERE thread_id = ? AND state = 'done' AND orphaned = 0"
_FINISHED_SINCE = """
    SELECT * FROM calls WHERE thread_id = ? AND state = 'done' AND orphaned = 0 AND position >= ? ORDER BY position
"""
_FINISHED_ONE = f"{_FIND} AND state = 'done' AND orphaned = 0"

DECODED = 500
"""Calls that are decoded at once."""


def canonical(arguments: Mapping[str, Any]) -> str:
    """One text per value, whatever the order of its keys."""
    return json.dumps(dict(arguments), sort_keys=True, separators=(",", ":"))


def _update(connection: Connection, row: Row, **changes: Any) -> None:
    """Change a call that can be read, and its checksum with it."""
    from_row(Call, row)
    new = {**dict(row), **changes}
    connection.execute(_UPDATE, {**new, "checksum": call_checksum(new)})


def _result(outcome: object) -> CallResult:
    """The result that a stored outcome is; one that is damaged says nothing."""
    try:
        stored = json.loads(outcome) if isinstance(outcome, str) else None
    except ValueError:
        stored = None
    return CallResult.of(stored if isinstance(stored, dict) else {})


async def calls_of(
    database: Database[Connection], thread_id: str, task_id: str, after: int = 0, limit: int | None = None
) -> list[Call]:
    """A task's calls in the order of their intents, without the first `after`, at most `limit`."""
    values = (thread_id, task_id, ALL if limit is None else limit, after)
    rows = await database.read(methodcaller("fetched", _OF_TASK, values))
    calls: list[Call] = []
    for start in range(0, len(rows), DECODED):
        calls += [from_row(Call, row) for row in rows[start : start + DECODED]]
        await asyncio.sleep(0)  # a long task leaves the event loop to others in between
    return calls


class LedgerConflict(StorageError):
    """Two calls, or two outcomes of one, claim the same place in the ledger: this is a bug, please report it."""

    def __init__(self, key: CallKey, what: str) -> None:
        place = f"Call {key.index} of {key.scope} in task {key.task_id}"
        super().__init__(f"{place} {what}: this is a bug, please report it.")


class ToolLedger:
    """One run's view of the ledger. Fences count from 1: without one it can only be read.

    What was called in the threads `above` is finished, too: the thread is a part of them.
    """

    def __init__(
        self,
        database: Database[Connection],
        thread_id: str,
        fence: int = 0,
        clock: Callable[[], float] = time.time,
        above: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._thread_id = thread_id
        self._fence = fence
        self._above = above
        self._clock = clock
        self._finished: dict[int, Call] | None = None
        """The finished calls that were read, by their position; only the run with this fence ends others."""
        self._ended: set[CallKey] = set()
        """Those that ended since then."""
        self._finished_above: dict[int, tuple[int, Call]] = {}
        """Those of the threads above, by their position, each with its checksum."""

    async def claim(self, key: CallKey, name: str, arguments: Mapping[str, Any], *, synced: bool = True) -> Claim:
        """Store the intent to run a call; `synced`, it is on the disk when this returns.

        A call that has an intent and has not ended is `interrupted`. Only one claim of a key is ever `fresh`, or
        `doubtful` if an earlier call with this name and these arguments has an unknown outcome.
        """
        intent = self._database.submit(partial(self._claim, key, name, canonical(arguments)), synced=synced, brief=True)
        try:
            claim = await asyncio.shield(intent)
            if claim.state == "finished":
                self._ended.add(key)
            return claim
        except asyncio.CancelledError:
            # The caller never learns that it may run the call, so an intent of ours is taken back.
            await asyncio.wait([intent])
            if intent.exception() is None and intent.result().state in ("fresh", "doubtful"):
                values = (*self._row(key), self._fence)
                await self._database.write(lambda connection: connection.execute(_WITHDRAW, values), synced=True)
            raise

    async def settle(self, key: CallKey, outcome: Mapping[str, Any], *, synced: bool = True) -> None:
        """Store the outcome of a claimed call, once, even if the caller is cancelled meanwhile."""
        await self._database.write(partial(self._settle, key, json.dumps(dict(outcome))), synced=synced, brief=True)
        self._ended.add(key)

    async def keep(self, key: CallKey, job: Mapping[str, Any]) -> None:
        """Store what a call that runs began elsewhere; it is on the disk when this returns."""
        outcome = json.dumps(CallResult.waiting(None, "", job).json())

        def note(connection: Connection) -> None:
            check_fence(connection, self._thread_id, self._fence)
            for row in connection.fetched(_FIND, self._row(key)):
                _update(connection, row, outcome=outcome)

        await self._database.write(note, synced=True, brief=True)

    async def withdraw(self, key: CallKey) -> None:
        """Take back the intent of a call that asks a person something: it is made again with the answer.

        One that began something elsewhere stays, and goes on with that.
        """

        def take_back(connection: Connection) -> None:
            check_fence(connection, self._thread_id, self._fence)
            connection.execute(_WITHDRAW, (*self._row(key), self._fence))

        await self._database.write(take_back, brief=True)

    async def read(self, key: CallKey) -> Json | None:
        """Return the public form of one call, or None."""
        rows = await self._database.read(lambda connection: connection.fetched(_FIND, self._row(key)), brief=True)
        return from_row(Call, rows[0]).json() if rows else None

    async def calls(self, task_id: str, after: int = 0, limit: int | None = None) -> list[Call]:
        """Return a task's calls in the order of their intents, without the first `after`, at most `limit`."""
        return await calls_of(self._database, self._thread_id, task_id, after, limit)

    async def calls_after(self, moment: float) -> list[Call]:
        """Return the thread's calls that began after a moment, in the order of their intents."""
        rows = await self._database.read(lambda db: db.fetched(_LATER, (self._thread_id, moment)))
        return [from_row(Call, row) for row in rows]

    async def settle_all(self, task_id: str, outcome_of: Callable[[str], Mapping[str, Any]]) -> list[Call]:
        """Give each call of a task that is still under way the outcome for its name; return the task's calls."""
        values = (self._thread_id, task_id)

        def end(connection: Connection) -> None:
            check_fence(connection, self._thread_id, self._fence)
            under_way = connection.fetched(_UNDER_WAY, values)
            for row in under_way:
                outcome = json.dumps(dict(outcome_of(from_row(Call, row).name)))
                self._end(connection, row, outcome)
            if under_way:
                reseal(connection, "settled", *values)

        await self._database.write(end, synced=True)
        self._finished = None
        return await self.calls(task_id)

    async def unknown(self, task_id: str) -> list[Json]:
        """Return {name, arguments} of each of a task's calls whose outcome is unknown."""
        rows = await self._database.read(lambda db: db.fetched(_OF_TASK, (self._thread_id, task_id, ALL, 0)))
        first: dict[tuple[Any, Any], Call] = {}
        for row in rows:
            if _result(row["outcome"]).unknown:
                first.setdefault((row["name"], row["arguments"]), from_row(Call, row))
        return [{"name": call.name, "arguments": call.arguments} for call in first.values()]

    async def finished(self) -> list[Call]:
        """Return the thread's finished calls, oldest first; those that its state does not know aside.

        A run decodes each of them once, and one of a thread above again if it changed.
        """
        known, ended = self._finished, {*self._ended}
        if known is None or not self._fence:
            rows = await self._database.read(lambda db: db.fetched(_FINISHED, (self._thread_id,)))
        elif keys := [self._row(key) for key in ended]:
            rows = await self._database.read(lambda db: [row for key in keys for row in db.fetched(_FINISHED_ONE, key)])
        else:
            rows = []
        new = {row["position"]: from_row(Call, row) for row in rows}
        found = {**(known or {}), **(self._finished or {}), **new}
        if self._fence:
            self._finished, self._ended = found, self._ended - ended
        if self._above:
            self._finished_above = await self._database.read(self._read_above)
            found = {**found, **{position: call for position, (_, call) in self._finished_above.items()}}
        return [found[position] for position in sorted(found)]

    def _read_above(self, connection: Connection) -> dict[int, tuple[int, Call]]:
        """The finished calls of the threads above, of which those that are known stay.

        Their runs go on: they end calls that began earlier, and give one that waited another outcome.
        """
        found = dict[int, tuple[int, Call]]()
        for thread_id in self._above:
            changed = set[int]()
            for row in connection.fetched(_FINISHED_CHECKSUMS, (thread_id,)):
                known = self._finished_above.get(row["position"])
                if known and known[0] == row["checksum"]:
                    found[row["position"]] = known
                else:
                    changed.add(row["position"])
            for row in connection.fetched(_FINISHED_SINCE, (thread_id, min(changed))) if changed else ():
                if row["position"] in changed:
                    found[row["position"]] = row["checksum"], from_row(Call, row)
        return found

    def _row(self, key: CallKey) -> tuple[str, str, str, int]:
        return (self._thread_id, key.task_id, key.scope, key.index)

    def _claim(self, key: CallKey, name: str, arguments: str, connection: Connection) -> Claim:
        check_fence(connection, self._thread_id, self._fence)
        row = self._known(key, name, arguments, connection)
        if row is None:
            like = (self._thread_id, key.task_id, name, arguments)
            place = f" {key.scope}/{key.index}"
            doubtful = any(
                _result(earlier["outcome"]).unknown
                for earlier in connection.fetched(_LIKE, like)
                if (earlier["name"], earlier["arguments"]) == (name, arguments) or str(earlier["scope"]).endswith(place)
            )
            thread_id, task_id, scope, index = self._row(key)
            intent = {
                **{"thread_id": thread_id, "task_id": task_id, "scope": scope, "idx": index},
                **{"name": name, "arguments": arguments, "state": "running", "outcome": None},
                **{"fence": self._fence, "started_at": self._clock(), "finished_at": None},
            }
            stored = {**intent, "orphaned": 0, "checksum": call_checksum(intent)}
            from_row(Call, stored)  # a row that could not be read again would stop the session
            insert_row(connection, "calls", intent)
            return Claim("doubtful" if doubtful else "fresh")
        call = from_row(Call, row)
        if (row["name"], row["arguments"]) != (name, arguments):
            raise LedgerConflict(key, f"was {row['name']}({row['arguments']}) and is now {name}({arguments})")
        if call.state == "done":
            return Claim("finished", call.outcome)
        _update(connection, row, fence=self._fence)
        return Claim(
            "interrupted", CallResult.of(call.outcome or {}).job, moved=(call.scope, call.idx) != (key.scope, key.index)
        )

    def _known(self, key: CallKey, name: str, arguments: str, connection: Connection) -> Row | None:
        """The call's row, by its key or else among the orphans: the same call, made before its thread went back."""
        row: Row | None = next(iter(connection.fetched(_FIND, self._row(key))), None)
        if row is not None and not row["orphaned"]:
            return row
        if row is not None and (row["name"], row["arguments"]) != (name, arguments):
            _update(connection, row, scope=f"{row['scope']}#{row['position']}")
            row = None
        row = row or next(iter(connection.fetched(_ORPHAN, (self._thread_id, key.task_id, name, arguments))), None)
        if row is not None:
            _update(connection, row, scope=key.scope, idx=key.index, orphaned=0)
        return row

    def _end(self, connection: Connection, row: Row, outcome: str) -> None:
        _update(connection, row, state="done", outcome=outcome, fence=self._fence, finished_at=self._clock())

    def _settle(self, key: CallKey, outcome: str, connection: Connection) -> None:
        check_fence(connection, self._thread_id, self._fence)
        row = connection.execute(_FIND, self._row(key)).fetchone()
        if row is None:
            raise LedgerConflict(key, "was settled but never claimed")
        if row["state"] == "running" or _result(row["outcome"]).status is CallStatus.WAITING:
            self._end(connection, row, outcome)
        elif row["outcome"] != outcome:
            raise LedgerConflict(key, "has an outcome already, and another one came")
