"""The port of workers over a SQLite file: what to run is found by looking, and nothing is told."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from segue.core.records import Unowned, Worker

_UNOWNED = """
    SELECT task_id, thread_id, agent_id, agent_version, on_upgrade, mode, coalesce(owner, '') AS owner,
        coalesce(expires_at, 0) <= ? AS expired
    FROM tasks LEFT JOIN leases USING (thread_id)
    WHERE status IN ('pending', 'running', 'pausing') AND called_by IS NULL
"""


class PollingWorkers:
    """Shared by the apps of a test, as a database is by processes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._workers: dict[str, Worker] = {}
        self._hearing: list[Callable[[Any], None]] = []

    async def report(self, worker: Worker) -> None:
        self._workers[worker.owner] = replace(worker, seen_at=time.time())

    async def leave(self, owner: str) -> None:
        self._workers.pop(owner, None)

    async def list(self) -> list[Worker]:
        return [*self._workers.values()]

    async def is_queued(self, task_id: str) -> bool:
        return any(each.task_id == task_id and not each.owner for each in await self.unowned())

    async def unowned(self, worker: Worker | None = None) -> Iterable[Unowned]:
        connection = sqlite3.connect(self._file)
        try:
            rows = connection.execute(_UNOWNED, (time.time(),)).fetchall()
        finally:
            connection.close()
        names = ("task_id", "session_id", "agent_id", "agent_version", "on_upgrade", "mode", "owner", "expired")
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [Unowned(**row, orphaned=not self._has(row["agent_id"], row["agent_version"])) for row in found]

    def _has(self, agent_id: str, version: str) -> bool:
        return any(version in worker.agents.get(agent_id, ()) for worker in self._workers.values())

    async def wake(self, tasks: Iterable[Unowned]) -> None:
        """They are found anyway."""

    async def serve(
        self, agents: Mapping[str, Collection[str]], concurrency: int, run: Callable[[str], Awaitable[None]]
    ) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                for each in await self.unowned():
                    same = each.agent_version in agents.get(each.agent_id, ()) or each.orphaned
                    if each.agent_id in agents and each.expired and same:
                        group.create_task(run(each.task_id))
                await asyncio.sleep(0.05)

    def relay(self, deltas: Callable[[], Sequence[str]]) -> Callable[[], None]:
        def send() -> None:
            for message in map(json.loads, deltas()):
                for hear in self._hearing:
                    hear(message)

        return send

    async def listen(
        self, tell: Callable[..., None], hear: Callable[[Any], None], connected: Callable[[bool], None]
    ) -> None:
        self._hearing.append(hear)
        await asyncio.Event().wait()
