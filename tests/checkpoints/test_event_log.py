"""The event log: contiguous numbers, and what was written comes back."""

import asyncio

import pytest

from segue.checkpoints.database import Database
from segue.checkpoints.event_log import EventLog
from segue.checkpoints.lease import Lease
from segue.errors import StaleOwner
from segue.events import Paused, Resumed, TaskStarted, from_dict, to_dict

from .conftest import Clock


async def test_events_are_numbered_per_task_and_come_back_whole(database: Database) -> None:
    log = EventLog(database)
    started = TaskStarted(task_id="t1", message="你好 \ud800", agent_id="support", model="offline")
    assert (await log.append("s", started))["seq"] == 1
    assert (await log.append("s", Paused(task_id="t2")))["seq"] == 1
    assert (await log.append("s", Paused(task_id="t1", reason="asked")))["seq"] == 2
    assert (await log.append("s", Paused(task_id="t1", reason="asked")))["seq"] == 3
    kept = await log.read("t1")
    assert kept[0] == {**to_dict(started), "seq": 1}
    assert [type(from_dict(form)) for form in kept] == [TaskStarted, Paused, Paused]


async def test_reading_goes_on_after_a_number_and_stops_at_a_limit(database: Database) -> None:
    log = EventLog(database)
    for _ in range(5):
        await log.append("s", Resumed(task_id="t1"))
    assert [form["seq"] for form in await log.read("t1", after=2)] == [3, 4, 5]
    assert [form["seq"] for form in await log.read("t1", after=1, limit=2)] == [2, 3]
    assert await log.read("t1", after=5) == []
    assert await log.read("t9") == []


async def test_two_processes_leave_no_gap(database: Database, other: Database) -> None:
    logs = (EventLog(database), EventLog(other))
    stored = await asyncio.gather(*(logs[n % 2].append("s", Resumed(task_id="t1")) for n in range(60)))
    assert sorted(form["seq"] for form in stored) == list(range(1, 61))


async def test_a_stale_owner_appends_nothing(database: Database, other: Database, clock: Clock) -> None:
    stale = await Lease(database, clock).acquire("s", "me")
    await EventLog(database).append("s", Paused(task_id="t1"), fence=stale)
    clock.now += 16
    await Lease(other, clock).acquire("s", "you")
    with pytest.raises(StaleOwner):
        await EventLog(database).append("s", Resumed(task_id="t1"), fence=stale)
    assert [form["type"] for form in await EventLog(other).read("t1")] == ["paused"]
