"""When something is due next: one query for all that happens at a moment."""

from collections.abc import Collection, Mapping
from typing import Final, Literal

from ..ports import Connection, Database

DueKind = Literal["run", "schedule", "wait", "notification"]
"""A run of a schedule that is unfinished, a schedule, a task that waits, or a notification."""

UNFINISHED_RUNS: Final = """
    SELECT tasks.task_id FROM schedules JOIN tasks ON tasks.task_id = schedules.last_task
    WHERE tasks.status IN ('pending', 'running', 'pausing', 'paused') AND tasks.requested IS NULL
"""
"""Where no process runs one, its process has ended."""
_NEXT: Mapping[DueKind, str] = {
    "run": f"SELECT 'run' AS kind, CASE WHEN EXISTS ({UNFINISHED_RUNS}) THEN CAST(0 AS DOUBLE PRECISION) END AS due",
    "schedule": "SELECT 'schedule' AS kind, min(due) AS due FROM schedules WHERE is_active = 1",
    "wait": "SELECT 'wait' AS kind, min(due) AS due FROM tasks WHERE due IS NOT NULL AND status = 'waiting'",
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
