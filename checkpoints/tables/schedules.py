"""The schedules of a database, of which each run begins a task once."""

import json
from collections.abc import Sequence
from typing import Any

from segue.core.errors import UnknownSchedule
from segue.core.records import Json, from_row, read, to_row
from segue.core.schedules import RunTaken, Schedule, ScheduledRun

from ..ports import Connection, Database
from .due import UNFINISHED_RUNS

_COLUMNS = (
    *("schedule_id", "message", "options", "every", "timezone", "overlap", "missed", "is_active"),
    *("due", "last_task", "problem", "agents_file", "created_at", "created_by"),
)
_PUT = f"""
    INSERT INTO schedules ({", ".join(_COLUMNS)}) VALUES ({", ".join(f":{name}" for name in _COLUMNS)})
    ON CONFLICT (schedule_id) DO NOTHING
"""
_GET = "SELECT * FROM schedules WHERE schedule_id = ?"
_LIST = """
    SELECT * FROM schedules WHERE :prefix = '' OR substr(schedule_id, 1, length(:prefix)) = :prefix
    ORDER BY is_active DESC, coalesce(due, 0), schedule_id
"""
_DELETE = "DELETE FROM schedules WHERE schedule_id = ?"
_OPTIONS = "SELECT schedule_id, options FROM schedules"
_CHANGE = """
    UPDATE schedules SET is_active = :is_active, due = :due, problem = :problem WHERE schedule_id = :schedule_id
"""
_DUE = "SELECT * FROM schedules WHERE is_active = 1 AND due <= ? ORDER BY due, schedule_id"
_MOVE_ON = """
    UPDATE schedules SET due = :next, last_task = coalesce(CAST(:task_id AS TEXT), last_task), problem = :problem,
        is_active = CASE WHEN CAST(:next AS DOUBLE PRECISION) IS NULL THEN 0 ELSE is_active END
    WHERE schedule_id = :schedule_id AND due = :due AND is_active = 1
"""
_REPORT = "UPDATE schedules SET problem = ? WHERE schedule_id = ? AND due = ?"


class Schedules:
    """The schedules of a database."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def put(self, schedule: Schedule) -> None:
        """Store a new schedule."""
        values = to_row(Schedule, vars(schedule))
        await self._database.write(lambda connection: connection.execute(_PUT, values).rowcount, synced=True)

    async def get(self, schedule_id: str) -> Schedule:
        """Return one schedule.

        Raises:
            UnknownSchedule: there is none.
            DatabaseDamaged: it cannot be read.
        """
        rows = await self._database.read(lambda connection: connection.fetched(_GET, (schedule_id,)))
        if not rows:
            raise UnknownSchedule(schedule_id)
        return from_row(Schedule, rows[0])

    async def list(self, prefix: str = "") -> Sequence[Schedule]:
        """Return the schedules whose ids begin so, those that run next first."""
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, {"prefix": prefix}))
        return [from_row(Schedule, row) for row in rows]

    async def change(self, schedule: Schedule) -> None:
        """Store whether a schedule is active, its next run and its problem."""
        values = {name: getattr(schedule, name) for name in ("schedule_id", "is_active", "due", "problem")}
        await self._database.write(lambda connection: connection.execute(_CHANGE, values).rowcount, synced=True)

    async def delete(self, schedule_id: str) -> bool:
        """Delete a schedule; returns whether there was one."""
        statement = (schedule_id,)
        return bool(await self._database.write(lambda db: db.execute(_DELETE, statement).rowcount, synced=True))

    async def due(self, now: float) -> Sequence[Schedule]:
        """Return the active schedules that are due, the longest first, without those that cannot be read."""
        rows = await self._database.read(lambda connection: connection.fetched(_DUE, (now,)))
        return [Schedule(**values) for values, faults in (read(Schedule, row) for row in rows) if not faults]

    async def unfinished_runs(self) -> set[str]:
        """Return the ids of the runs that have not come to an end, without those that wait or that somebody stopped."""
        rows = await self._database.read(lambda connection: connection.fetched(UNFINISHED_RUNS))
        return {str(row["task_id"]) for row in rows}

    async def skip(self, run: ScheduledRun, problem: str) -> None:
        """Leave a run out, and say why."""
        values = _moved(run, None, problem)
        await self._database.write(lambda connection: connection.execute(_MOVE_ON, values).rowcount)

    async def report(self, run: ScheduledRun, problem: str) -> None:
        """Say why a run was not started yet."""
        values = (problem, run.schedule_id, run.due)
        await self._database.write(lambda connection: connection.execute(_REPORT, values).rowcount)


def take_run(connection: Connection, run: ScheduledRun, task_id: str) -> None:
    """Note, in the transaction that stores its task, that a run was started.

    Raises:
        RunTaken: another process did, or the schedule was paused, changed or deleted.
    """
    if not connection.execute(_MOVE_ON, _moved(run, task_id, None)).rowcount:
        raise RunTaken(run.schedule_id)


def delete_of_thread(connection: Connection, thread_id: str) -> None:
    """Delete, in the transaction that deletes a session, the schedules whose runs continue it."""
    for row in connection.fetched(_OPTIONS):
        if json.loads(row["options"]).get("session_id") == thread_id:
            connection.execute(_DELETE, (row["schedule_id"],))


def _moved(run: ScheduledRun, task_id: str | None, problem: str | None) -> Json:
    about: dict[str, Any] = {"schedule_id": run.schedule_id, "due": run.due, "next": run.next_due}
    return {**about, "task_id": task_id, "problem": problem}
