"""A task's webhooks are due once it stops, to one process at a time."""

from dataclasses import replace

import pytest

from segue.checkpoints.outbox import Outbox, Webhooks
from segue.checkpoints.tasks import Tasks
from segue.core.errors import DatabaseDamaged
from segue.core.notifications import PUSH
from segue.core.task import TaskStatus

from .conftest import Clock, Store
from .test_tasks import create


async def test_a_webhook_is_due_once_its_task_stops_and_one_process_claims_it(
    store: Store, second: Store, clock: Clock
) -> None:
    tasks, webhooks = Tasks(store, clock), Webhooks(store, clock)
    mine, others = Outbox(store, clock), Outbox(second, clock)
    await create(tasks, "t")
    assert await webhooks.put("t", "a", {"url": "x"}, 1)
    assert not await webhooks.put("t", "b", {}, 1) and await webhooks.put("t", "a", {"url": "y"}, 1)
    await tasks.move("t", TaskStatus.RUNNING)
    assert await mine.claim([PUSH], 9, 60) == []
    await tasks.move("t", TaskStatus.WAITING)
    assert await mine.claim(["other"], 9, 60) == []
    (claimed,) = await mine.claim([PUSH], 9, 60)
    webhook = await webhooks.reported_to(claimed)
    assert webhook and (webhook.task_id, webhook.webhook_id, webhook.config) == ("t", "a", {"url": "y"})
    assert claimed.attempts == 1 and await others.claim([PUSH], 9, 60) == []
    await mine.fail(claimed, 5, "down")
    clock.now += 6
    (again,) = await others.claim([PUSH], 9, 60)
    assert (again.attempts, again.error) == (2, "down")
    await tasks.move("t", TaskStatus.RUNNING)
    await tasks.move("t", TaskStatus.DONE)  # meanwhile
    await others.settle(again)
    (ended,) = await mine.claim([PUSH], 9, 60)
    assert (ended.attempts, ended.error) == (1, None)
    await mine.settle(ended)
    clock.now += 1000
    assert await others.claim([PUSH], 9, 60) == []
    assert await webhooks.put("t", "c", {}, 2) and len(await mine.claim([PUSH], 1, 60)) == 1, "the task has stopped"
    await webhooks.delete("t", "a")
    assert await webhooks.reported_to(claimed) is None
    assert [len(await tasks.list(statuses=[status])) for status in (TaskStatus.DONE, TaskStatus.RUNNING)] == [1, 0]
    assert [await tasks.count(statuses=[], since=since) for since in (0.0, 1e6)] == [0, 0]
    assert [await tasks.count("support", since=since) for since in (0.0, 1e6)] == [1, 0]


async def test_one_that_cannot_be_read_keeps_no_other(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    tasks, webhooks, outbox = Tasks(store, clock), Webhooks(store, clock), Outbox(store, clock)
    await create(tasks, "t")
    for name in ("a", "b"):
        await webhooks.put("t", name, {"url": name}, 2)
    await tasks.move("t", TaskStatus.RUNNING)
    await tasks.move("t", TaskStatus.DONE)
    damage = "UPDATE notifications SET body = '{' WHERE notification_id LIKE '%/a'"
    await store.write(lambda connection: connection.execute(damage))
    assert [each.notification_id for each in await outbox.claim([PUSH], 9, 60)] == [f"{PUSH}/t/b"]
    assert "notification of task t, body is not valid JSON" in caplog.text
    clock.now += 61
    assert [each.notification_id for each in await outbox.claim([PUSH], 9, 60)] == [f"{PUSH}/t/b"]
    await store.write(lambda connection: connection.execute("UPDATE webhooks SET config = '{' WHERE webhook_id = 'a'"))
    assert [each.webhook_id for each in await webhooks.list("t")] == ["b"]
    (notification,) = await outbox.list("pending")
    with pytest.raises(DatabaseDamaged, match="webhook of task t, config is not valid JSON"):
        await webhooks.reported_to(replace(notification, notification_id=f"{PUSH}/t/a"))
