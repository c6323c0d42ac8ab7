"""The event log: contiguous numbers, and what was written comes back."""

import asyncio
from dataclasses import replace

from segue.checkpoints.sqlite.database import Database
from segue.checkpoints.sqlite.event_log import EventLog, insert_event
from segue.core.events import Event, Paused, Resumed, TaskStarted


async def append(database: Database, event: Event) -> Event:
    return await database.write(lambda connection: insert_event(connection, "s", event))


async def test_events_are_numbered_per_task_and_come_back_whole(database: Database) -> None:
    log = EventLog(database)
    started = TaskStarted(task_id="t1", message="你好 \ud800", agent_id="support", model="offline")
    assert (await append(database, started)).seq == 1
    assert (await append(database, Paused(task_id="t2"))).seq == 1
    assert (await append(database, Paused(task_id="t1", reason="asked"))).seq == 2
    assert (await append(database, Paused(task_id="t1", reason="asked"))).seq == 3
    kept = await log.read("t1")
    assert kept[0] == replace(started, seq=1)
    assert [type(event) for event in kept] == [TaskStarted, Paused, Paused]


async def test_reading_goes_on_after_a_number_and_stops_at_a_limit(database: Database) -> None:
    log = EventLog(database)
    for _ in range(5):
        await append(database, Resumed(task_id="t1"))
    assert [event.seq for event in await log.read("t1", after=2)] == [3, 4, 5]
    assert [event.seq for event in await log.read("t1", after=1, limit=2)] == [2, 3]
    assert await log.read("t1", after=5) == []
    assert await log.read("t9") == []


async def test_two_processes_leave_no_gap(database: Database, other: Database) -> None:
    databases = (database, other)
    stored = await asyncio.gather(*(append(databases[n % 2], Resumed(task_id="t1")) for n in range(60)))
    assert sorted(event.seq for event in stored) == list(range(1, 61))
