"""What is due next: schedules, and all else that happens at a moment."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

from segue.core.actor import SEGUE, actor
from segue.core.audit import Act
from segue.core.errors import UnknownSchedule
from segue.core.records import Json, from_row, names_of, read, readable, to_row
from segue.core.schedules import RunTaken, Schedule, ScheduledRun
from segue.core.spend import Owner, Quotas
from segue.core.task import ACTIVE, TaskStatus

from .audit import record
from .ports import Connection, Database, insert_into, set_columns, sql_list

DueKind = Literal["run", "schedule", "wait", "notification"]
"""A run of a schedule that is unfinished, a schedule, a task that waits, or a notification."""

UNFINISHED_RUNS: Final = f"""
    SELECT tasks.task_id FROM schedules JOIN tasks ON tasks.task_id = schedules.last_task
    WHERE tasks.status IN ({sql_list(ACTIVE | {TaskStatus.PAUSED})}) AND tasks.requested IS NULL
"""
"""Where no process runs one, its process has ended."""
_NEXT: Mapping[DueKind, str] = {
    "run": f"SELECT 'run' AS kind, CASE WHEN EXISTS ({UNFINISHED_RUNS}) THEN CAST(0 AS DOUBLE PRECISION) END AS due",
    "schedule": "SELECT 'schedule' AS kind, min(due) AS due FROM schedules WHERE is_active = 1",
    "wait": f"""
        SELECT 'wait' AS kind, min(due) AS due FROM tasks WHERE due IS NOT NULL AND status = '{TaskStatus.WAITING}'
    """,
    "notification": "SELECT 'notification' AS kind, min(due) AS due FROM notifications",
}


class DueMoments:
    """The moments of a database at which something is due."""

    def __init__(self, database: Database[Connection]) -> None:
        self._database = database

    async def next(self, kinds: Collection[DueKind]) -> dict[DueKind, float]:
        """Return when something of each kind is due next; a kind of which nothing is has none.

        A moment that cannot be read is left out.
        """
        statement = " UNION ALL ".join(_NEXT[kind] for kind in kinds)
        rows = await self._database.read(lambda connection: connection.fetched(statement)) if kinds else []
        return {row["kind"]: float(row["due"]) for row in rows if isinstance(row["due"], int | float)}


# The schedules of a database, of which each run begins a task once.

_PUT = f"{insert_into('schedules', names_of(Schedule))} ON CONFLICT (schedule_id) DO NOTHING"
_KEPT = ("schedule_id", "is_active", "last_task")
_REPLACE = f"""
    UPDATE schedules SET {set_columns(name for name in names_of(Schedule) if name not in _KEPT)}
    WHERE schedule_id = :schedule_id
"""
_MOVE = "UPDATE schedules SET agents_file = ? WHERE schedule_id = ?"
_GET = "SELECT * FROM schedules WHERE schedule_id = ?"
_LIST = """
    SELECT * FROM schedules WHERE :prefix = '' OR substr(schedule_id, 1, length(:prefix)) = :prefix
    ORDER BY is_active DESC, coalesce(due, 0), schedule_id
"""
_DELETE = "DELETE FROM schedules WHERE schedule_id = ?"
_OPTIONS = "SELECT * FROM schedules"
_ACTIVE = """
    SELECT count(*) AS active FROM schedules WHERE is_active = 1 AND CASE WHEN :prefix = ''
        THEN schedule_id NOT LIKE '%:%' ELSE substr(schedule_id, 1, length(:prefix)) = :prefix END
"""
_LOCK = "segue.schedules"
"""What a transaction locks that counts them."""
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

    async def put(self, schedule: Schedule, quotas: Quotas) -> None:
        """Store a new schedule; one that is there already stays."""
        values, act = to_row(Schedule, vars(schedule)), Act("scheduled", {"schedule_id": schedule.schedule_id})

        def put(connection: Connection) -> None:
            if connection.fetched(_GET, (schedule.schedule_id,)):
                return
            _check_room(connection, schedule, quotas)
            if connection.execute(_PUT, values).rowcount:
                _record(connection, act, schedule)

        await self._database.write(put, synced=True)

    async def replace(self, schedule: Schedule) -> None:
        """Store another schedule under the id of one that is there; its last run stays, and whether it is paused."""
        act = Act("changed_schedule", {"schedule_id": schedule.schedule_id})
        await self._change(_REPLACE, to_row(Schedule, vars(schedule)), act, schedule)

    async def move(self, schedule_id: str, agents_file: str | None) -> None:
        """Store in which file a schedule is now."""
        act = Act("moved_schedule", {"schedule_id": schedule_id})

        def move(connection: Connection) -> None:
            if connection.execute(_MOVE, (agents_file, schedule_id)).rowcount:
                record(connection, act, schedule_id, kept={"schedules": schedule_id})

        await self._database.write(move, synced=True)

    async def get(self, schedule_id: str) -> Schedule:
        """Return one schedule."""
        rows = await self._database.read(lambda connection: connection.fetched(_GET, (schedule_id,)))
        if not rows:
            raise UnknownSchedule(schedule_id)
        return from_row(Schedule, rows[0])

    async def list(self, prefix: str = "") -> Sequence[Schedule]:
        """Return the schedules whose ids begin so, those that run next first, without those that cannot be read."""
        rows = await self._database.read(lambda connection: connection.fetched(_LIST, {"prefix": prefix}))
        return readable(Schedule, rows)

    async def change(self, schedule: Schedule, quotas: Quotas) -> None:
        """Store whether a schedule is active, its next run and its problem."""
        values = {name: getattr(schedule, name) for name in ("schedule_id", "is_active", "due", "problem")}
        action = "resumed_schedule" if schedule.is_active else "paused_schedule"
        act = Act(action, {"schedule_id": schedule.schedule_id})
        await self._change(_CHANGE, values, act, schedule, quotas if schedule.is_active else None)

    async def _change(
        self, statement: str, values: Json, act: Act, schedule: Schedule, quotas: Quotas | None = None
    ) -> None:
        def change(connection: Connection) -> None:
            if quotas:
                _check_room(connection, schedule, quotas)
            if connection.execute(statement, values).rowcount:
                _record(connection, act, schedule)

        await self._database.write(change, synced=True)

    async def delete(self, schedule_id: str) -> bool:
        """Delete a schedule; returns whether there was one."""
        by = actor()
        return await self._database.write(lambda connection: _delete(connection, schedule_id, by), synced=True)

    async def due(self, now: float) -> Sequence[Schedule]:
        """Return the active schedules that are due, the longest first, without those that cannot be read."""
        rows = await self._database.read(lambda connection: connection.fetched(_DUE, (now,)))
        return readable(Schedule, rows)

    async def unfinished_runs(self) -> set[str]:
        """Return the ids of the runs that have not come to an end, without those that wait or that somebody stopped."""
        rows = await self._database.read(lambda connection: connection.fetched(UNFINISHED_RUNS))
        return {str(row["task_id"]) for row in rows}

    async def skip(self, run: ScheduledRun, problem: str) -> None:
        """Leave a run out, and say why."""
        values = _moved(run, None, problem)

        def skip(connection: Connection) -> None:
            if connection.execute(_MOVE_ON, values).rowcount:
                _record_run(connection, "skipped_run", run)

        await self._database.write(skip)

    async def report(self, run: ScheduledRun, problem: str) -> None:
        """Say why a run was not started yet."""
        values = (problem, run.schedule_id, run.due)
        await self._database.write(lambda connection: connection.execute(_REPORT, values).rowcount)


def take_run(connection: Connection, run: ScheduledRun, task_id: str) -> None:
    """Note, in the transaction that stores its task, that a run was started."""
    if not connection.execute(_MOVE_ON, _moved(run, task_id, None)).rowcount:
        raise RunTaken(run.schedule_id)
    _record_run(connection, "started_run", run)


def _record_run(connection: Connection, action: str, run: ScheduledRun) -> None:
    about = {"schedule_id": run.schedule_id, "due": run.due}
    record(connection, Act(action, about, SEGUE), run.schedule_id, kept={"schedules": run.schedule_id})


def delete_of_thread(connection: Connection, thread_id: str, by: str) -> None:
    """Delete, in the transaction that deletes a session, the schedules whose runs continue it; `by` is who does."""
    for row in connection.fetched(_OPTIONS):
        if (read(Schedule, row)[0].get("options") or {}).get("session_id") == thread_id:
            _delete(connection, row["schedule_id"], by)


def _delete(connection: Connection, schedule_id: str, by: str) -> bool:
    """Delete a schedule, which may be damaged; returns whether there was one."""
    found = connection.fetched(_GET, (schedule_id,))
    for row in found:
        connection.execute(_DELETE, (schedule_id,))
        session = (read(Schedule, row)[0].get("options") or {}).get("session_id")
        act = Act("deleted_schedule", {"schedule_id": schedule_id}, by)
        record(connection, act, str(session or schedule_id), kept={"schedules": schedule_id})
    return bool(found)


def _record(connection: Connection, act: Act, schedule: Schedule) -> None:
    """Note a change in the audit log, under the schedule's session, or its id where each run has a session."""
    record(connection, act, schedule.session_id or schedule.schedule_id, kept={"schedules": schedule.schedule_id})


def _check_room(connection: Connection, schedule: Schedule, quotas: Quotas) -> None:
    """Refuse an active schedule where its tenant has as many as may be."""
    connection.lock(_LOCK)
    tenant = Owner.of(schedule.schedule_id, "").tenant
    row = connection.execute(_ACTIVE, {"prefix": f"{tenant}:" if tenant else ""}).fetchone()
    quotas.check_schedules(row["active"])


def _moved(run: ScheduledRun, task_id: str | None, problem: str | None) -> Json:
    about: dict[str, Any] = {"schedule_id": run.schedule_id, "due": run.due, "next": run.next_due}
    return {**about, "task_id": task_id, "problem": problem}
