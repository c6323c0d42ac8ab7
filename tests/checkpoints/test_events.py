"""The event log: contiguous numbers, and what was written comes back."""

import asyncio
from dataclasses import replace

import pytest

from segue.checkpoints.events import EventLog, SentEvents, complete_events, insert_event
from segue.checkpoints.leases import Lease
from segue.checkpoints.ledger import ToolLedger
from segue.checkpoints.tasks import Tasks
from segue.core.calls import CallKey
from segue.core.errors import KeyUsed
from segue.core.events import Event, Paused, Resumed, TaskStarted, ToolResult
from segue.core.records import RequestKey

from .conftest import Store
from .test_tasks import create


async def append(database: Store, event: Event) -> Event:
    return await database.write(lambda connection: insert_event(connection, "s", event))


async def test_events_are_numbered_per_task_and_come_back_whole(store: Store) -> None:
    log = EventLog(store)
    started = TaskStarted(task_id="t1", message="你好 \ud800", agent_id="support", model="offline")
    assert (await append(store, started)).seq == 1
    assert (await append(store, Paused(task_id="t2"))).seq == 1
    assert (await append(store, Paused(task_id="t1", reason="asked"))).seq == 2
    assert (await append(store, Paused(task_id="t1", reason="asked"))).seq == 3
    kept = await log.read("t1")
    assert kept[0] == replace(started, seq=1)
    assert [type(event) for event in kept] == [TaskStarted, Paused, Paused]


async def test_reading_goes_on_after_a_number_and_stops_at_a_limit(store: Store) -> None:
    log = EventLog(store)
    for _ in range(5):
        await append(store, Resumed(task_id="t1"))
    assert [event.seq for event in await log.read("t1", after=2)] == [3, 4, 5]
    assert [event.seq for event in await log.read("t1", after=1, limit=2)] == [2, 3]
    assert await log.read("t1", after=5) == []
    assert await log.read("t9") == []


async def test_two_processes_leave_no_gap(store: Store, second: Store) -> None:
    await create(Tasks(store), "t1")
    databases = (store, second)
    stored = await asyncio.gather(*(append(databases[n % 2], Resumed(task_id="t1")) for n in range(60)))
    assert sorted(event.seq for event in stored) == list(range(1, 61))


async def test_events_made_of_those_before_are_sent_one_by_one_and_once_for_a_key(store: Store, second: Store) -> None:
    await create(Tasks(store), "t1")
    sent, key = (SentEvents(store), SentEvents(second)), RequestKey("key", "")
    made = await asyncio.gather(*(sent[n % 2].send_next("t1", "go", len) for n in range(20)))
    assert sorted(made) == list(range(20))
    assert await asyncio.gather(*(sent[n % 2].send_next("t1", "go", len, key) for n in range(4))) == [20] * 4
    with pytest.raises(KeyUsed):
        await sent[0].send("t1", "other", None, key)


async def test_a_key_with_other_data_is_refused(store: Store) -> None:
    await create(Tasks(store), "t1")
    events, key = SentEvents(store), RequestKey("key", "")
    for data in ({"a": 1, "b": [2]}, {"b": [2], "a": 1}):
        await events.send("t1", "go", data, key)
    with pytest.raises(KeyUsed):
        await events.send("t1", "go", {"a": 2}, key)
    assert len(await events.all("t1", "go")) == 1


async def test_a_result_that_the_ledger_has_is_stored_there_alone(store: Store) -> None:
    ledger = ToolLedger(store, "s", await Lease(store).acquire("s", "me"))
    told = ToolResult(task_id="t1", scope="1#2", index=0, name="look", arguments={}, result={"success": "x" * 1000})
    await ledger.claim(CallKey("t1", "1#2", 0), "look", {})
    await ledger.settle(CallKey("t1", "1#2", 0), told.result)
    bounded = replace(told, result={"success": "x… (shortened)"})
    assert [(await append(store, event)).seq for event in (told, bounded)] == [1, 2]
    (longest,) = await store.read(lambda db: db.execute("SELECT max(length(event)) FROM events").fetchone())
    assert longest < 400
    kept = [replace(told, seq=1), replace(bounded, seq=2)]
    assert await EventLog(store).read("t1") == kept
    await store.write(lambda db: complete_events(db, "s", "t1"))
    await store.write(lambda db: db.execute("UPDATE calls SET scope = 'elsewhere'"))
    assert await EventLog(store).read("t1") == kept
