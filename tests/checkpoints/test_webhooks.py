"""Webhooks are due once their task stops, to one process at a time."""

import pytest

from segue.checkpoints.tables.tasks import Tasks
from segue.checkpoints.tables.webhooks import Webhooks
from segue.core.errors import DatabaseDamaged
from segue.core.task_status import TaskStatus

from .conftest import Clock, Store
from .test_tasks import create


async def test_a_webhook_is_due_once_its_task_stops_and_one_process_claims_it(
    store: Store, second: Store, clock: Clock
) -> None:
    tasks, mine = Tasks(store, clock), Webhooks(store, clock)
    others = Webhooks(second, clock)
    await create(tasks, "t")
    assert await mine.put("t", "a", {"url": "x"}, 1)
    assert not await mine.put("t", "b", {}, 1) and await mine.put("t", "a", {"url": "y"}, 1)
    await tasks.move("t", TaskStatus.RUNNING)
    assert await mine.claim(9, 60) == []
    await tasks.move("t", TaskStatus.WAITING)
    (claimed,) = await mine.claim(9, 60)
    assert (claimed.task_id, claimed.webhook_id, claimed.config, claimed.attempts) == ("t", "a", {"url": "y"}, 1)
    assert await others.claim(9, 60) == []
    await mine.settle(claimed, 5)
    clock.now += 6
    (again,) = await others.claim(9, 60)
    assert again.attempts == 2
    await tasks.move("t", TaskStatus.RUNNING)
    await tasks.move("t", TaskStatus.DONE)  # meanwhile
    await others.settle(again)
    (ended,) = await mine.claim(9, 60)
    assert ended.attempts == 1
    await mine.settle(ended)
    clock.now += 1000
    assert await others.claim(9, 60) == []
    assert await others.put("t", "c", {}, 2) and len(await mine.claim(1, 60)) == 1, "the task has stopped"
    assert [len(await tasks.list(statuses=[status])) for status in (TaskStatus.DONE, TaskStatus.RUNNING)] == [1, 0]
    assert [await tasks.count(statuses=[], since=since) for since in (0.0, 1e6)] == [0, 0]
    assert [await tasks.count("support", since=since) for since in (0.0, 1e6)] == [1, 0]


async def test_one_that_cannot_be_read_keeps_no_other(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    tasks, webhooks = Tasks(store, clock), Webhooks(store, clock)
    await create(tasks, "t")
    for name in ("a", "b"):
        await webhooks.put("t", name, {"url": name}, 2)
    await tasks.move("t", TaskStatus.RUNNING)
    await tasks.move("t", TaskStatus.DONE)
    await store.write(lambda connection: connection.execute("UPDATE webhooks SET config = '{' WHERE webhook_id = 'a'"))
    with pytest.raises(DatabaseDamaged, match="webhook of task t, config is not valid JSON"):
        await webhooks.list("t")
    assert [each.webhook_id for each in await webhooks.claim(9, 60)] == ["b"]
    assert "webhook of task t" in caplog.text
    clock.now += 61
    assert [each.webhook_id for each in await webhooks.claim(9, 60)] == ["b"]
