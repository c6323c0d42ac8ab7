"""Tasks: their rows, their statuses, their lists."""

from itertools import product

import pytest

from segue.checkpoints.database import Database
from segue.checkpoints.lease import Lease
from segue.checkpoints.tasks import TASK_TRANSITIONS, Row, Tasks, TaskStatus, next_status
from segue.errors import IllegalTransition, StaleOwner, UnknownTask

from .conftest import Clock


async def create(tasks: Tasks, task_id: str, thread_id: str = "s", agent_id: str = "support") -> Row:
    return await tasks.create(
        task_id=task_id,
        thread_id=thread_id,
        agent_id=agent_id,
        user_id="default",
        mode="react",
        model="offline",
        message=f"message of {task_id}: 你好",
    )


async def test_a_created_task_is_pending_and_the_same_when_read(database: Database, clock: Clock) -> None:
    tasks = Tasks(database, clock)
    created = await create(tasks, "t1")
    assert created == await tasks.get("t1")
    assert created == {
        "task_id": "t1",
        "thread_id": "s",
        "agent_id": "support",
        "user_id": "default",
        "mode": "react",
        "model": "offline",
        "status": "pending",
        "message": "message of t1: 你好",
        "error": None,
        "result": None,
        "created_at": 1000.0,
        "updated_at": 1000.0,
    }


async def test_an_unknown_task_is_named(database: Database) -> None:
    tasks = Tasks(database)
    with pytest.raises(UnknownTask, match="«t9»"):
        await tasks.get("t9")
    with pytest.raises(UnknownTask, match="«t9»"):
        await tasks.set_status("t9", "running")


async def test_a_status_comes_with_result_and_error(database: Database, clock: Clock) -> None:
    tasks = Tasks(database, clock)
    await create(tasks, "t1")
    await tasks.set_status("t1", TaskStatus.RUNNING)
    clock.now += 5
    failed = await tasks.set_status("t1", "error", error="no answer", result={"done": ["a"]})
    assert (failed["status"], failed["error"], failed["result"]) == ("error", "no answer", {"done": ["a"]})
    assert (failed["created_at"], failed["updated_at"]) == (1000.0, 1005.0)
    again = await tasks.set_status("t1", "running")
    assert (again["error"], again["result"]) == (None, {"done": ["a"]})
    assert again == await tasks.get("t1")


async def test_an_illegal_transition_changes_nothing(database: Database) -> None:
    tasks = Tasks(database)
    before = await create(tasks, "t1")
    with pytest.raises(IllegalTransition, match="«pending» to «done»"):
        await tasks.set_status("t1", "done", result={"answer": "x"})
    assert await tasks.get("t1") == before


def test_the_table_is_what_the_documents_say() -> None:
    allowed = {
        "pending": {"running", "paused", "cancelled", "error"},
        "running": {"running", "waiting", "pausing", "paused", "done", "error", "cancelled"},
        "waiting": {"running", "paused", "cancelled", "error"},
        "pausing": {"paused", "running", "done", "error", "cancelled"},
        "paused": {"running", "cancelled"},
        "error": {"running", "paused", "cancelled"},
        "done": set(),
        "cancelled": set(),
    }
    assert set(TASK_TRANSITIONS) == set(TaskStatus)
    for old, new in product(TaskStatus, TaskStatus):
        if new in allowed[old]:
            assert next_status(old, new) is new
        else:
            with pytest.raises(IllegalTransition):
                next_status(old, new)


async def test_a_stale_owner_sets_no_status(database: Database, other: Database, clock: Clock) -> None:
    tasks = Tasks(database)
    await create(tasks, "t1")
    stale = await Lease(database, clock).acquire("s", "me")
    await tasks.set_status("t1", "running", fence=stale)
    clock.now += 16
    fence = await Lease(other, clock).acquire("s", "you")
    with pytest.raises(StaleOwner):
        await tasks.set_status("t1", "done", fence=stale)
    assert (await tasks.get("t1"))["status"] == "running"
    assert (await Tasks(other).set_status("t1", "done", fence=fence))["status"] == "done"


async def test_a_thread_has_its_tasks_in_order(database: Database) -> None:
    tasks = Tasks(database)
    assert await tasks.latest_of("s") is None
    for task_id in ("t2", "t1", "t3"):
        await create(tasks, task_id)
    await create(tasks, "elsewhere", thread_id="s2")
    assert [task["task_id"] for task in await tasks.of_thread("s")] == ["t2", "t1", "t3"]
    latest = await tasks.latest_of("s")
    assert latest is not None
    assert latest["task_id"] == "t3"


async def test_tasks_are_listed_newest_first_by_agent_thread_and_page(database: Database, clock: Clock) -> None:
    tasks = Tasks(database, clock)
    for n in range(7):
        await create(tasks, f"t{n}", thread_id=f"s{n % 2}", agent_id="even" if n % 2 == 0 else "odd")

    async def ids(**filters: str | int) -> list[str]:
        return [task["task_id"] for task in await tasks.list(**filters)]  # type: ignore[arg-type]

    assert await ids() == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
    assert await ids(agent_id="odd") == ["t5", "t3", "t1"]
    assert await ids(thread_id="s0") == ["t6", "t4", "t2", "t0"]
    assert await ids(agent_id="odd", thread_id="s0") == []
    assert await ids(limit=3) == ["t6", "t5", "t4"]
    assert await ids(limit=3, before="t4") == ["t3", "t2", "t1"]
    assert await ids(limit=3, before="t1") == ["t0"]


async def test_threads_show_their_last_task(database: Database, clock: Clock) -> None:
    tasks = Tasks(database, clock)
    assert await tasks.threads() == []
    await create(tasks, "t1", thread_id="old")
    clock.now += 1
    await create(tasks, "t2", thread_id="new")
    clock.now += 1
    await create(tasks, "t3", thread_id="new")
    clock.now += 1
    await tasks.set_status("t3", "running")
    assert await tasks.threads() == [
        {"thread_id": "new", "turns": 2, "message": "message of t3: 你好", "status": "running", "updated_at": 1003.0},
        {"thread_id": "old", "turns": 1, "message": "message of t1: 你好", "status": "pending", "updated_at": 1000.0},
    ]
    assert [thread["thread_id"] for thread in await tasks.threads(limit=1)] == ["new"]
