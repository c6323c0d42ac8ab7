"""How many tasks of a user and of a tenant run and wait: fair in one process, and in the workers' queue."""

import asyncio
from pathlib import Path

import psycopg
import pytest

import segue
from segue.checkpoints.storage import open_storage
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError, TooManyTasks
from segue.core.records import NewTask
from segue.core.spend import Owner, Quotas, load_quotas
from segue.runtime.run import Capacity, Slot
from tests.fakes import ScriptedChatModel, answer, call_tool

A, B = Owner("a", "a:u"), Owner("b", "b:u")
MANY = 1000
WAKE = """
    SELECT segue_wake(task_id, agent_id, NULL, false) FROM (
        SELECT * FROM tasks WHERE starts_with(thread_id, %s) ORDER BY position
    ) AS queued
"""


def given(slots: list[Slot]) -> list[bool]:
    return [slot.done() for slot in slots]


async def test_a_tenant_with_a_thousand_queued_tasks_delays_another_by_one() -> None:
    capacity = Capacity(1, 2 * MANY)
    many = [capacity.reserve(A) for _ in range(MANY)]
    other = [capacity.reserve(B) for _ in range(3)]
    turns = []
    for _ in range(6):
        running = next(slot for slot in (*many, *other) if slot.done() and slot not in turns)
        turns.append(running)
        capacity.release(running)
    assert [slot in other for slot in turns] == [False, False, True, False, True, False]


async def test_a_quota_lets_others_pass_and_its_own_wait() -> None:
    capacity = Capacity(4, 100, Quotas(tasks_per_user=1, tasks_per_tenant=2))
    same, colleague, third = Owner("a", "a:u"), Owner("a", "a:v"), Owner("a", "a:w")
    slots = [capacity.reserve(owner) for owner in (same, same, colleague, third, B)]
    assert given(slots) == [True, False, True, False, True]
    capacity.release(slots[2])
    assert given(slots) == [True, False, True, True, True]
    capacity.release(slots[0])
    assert given(slots)[1] and capacity.is_within_quotas(Owner("c", "c:u"))
    assert not capacity.is_within_quotas(same) and not capacity.is_within_quotas(Owner("c", "u"), [Owner("c", "u")])


async def test_a_stopped_task_leaves_the_queue_and_gives_its_turn_away() -> None:
    capacity = Capacity(1, 100)
    running, stopped, last = (capacity.reserve(A) for _ in range(3))
    stopped.set_result(False)
    capacity.release(stopped)
    capacity.release(running)
    assert last.done() and last.result()


async def test_a_full_queue_refuses_its_user_and_its_tenant_and_nobody_else() -> None:
    capacity = Capacity(1, 100, Quotas(queued_per_user=2, queued_per_tenant=3))
    slots = [capacity.reserve(A) for _ in range(3)]
    with pytest.raises(TooManyTasks, match="of this user wait: 2 is the limit"):
        async with capacity.admitted(A):
            pass
    async with capacity.admitted(Owner("a", "a:v")):
        with pytest.raises(TooManyTasks, match="of this tenant wait: 3 is the limit"):
            async with capacity.admitted(Owner("a", "a:w")):
                pass
        slots.append(capacity.reserve(Owner("a", "a:v")))
    async with capacity.admitted(B), capacity.admitted(None):
        pass
    for slot in slots:
        capacity.release(slot)


async def test_messages_that_come_at_once_are_counted_as_they_start() -> None:
    async with segue.open(":memory:", max_running=1, quotas=Quotas(queued_per_tenant=1)) as app:
        late = [app.start("hello", session_id=f"a:{n}", model="offline", mode="direct") for n in range(6)]
        started = await asyncio.gather(*late, return_exceptions=True)
        refused = [each for each in started if isinstance(each, TooManyTasks)]
        assert len(refused) >= 3 and len(await app.tasks.list()) == 6 - len(refused)


async def test_messages_over_the_quota_are_refused_and_others_run_in_turns() -> None:
    gate, begun = asyncio.Event(), list[str]()

    async def hold(who: str) -> str:
        """Hold until the gate opens."""
        begun.append(who)
        await gate.wait()
        return who

    async with segue.open(":memory:", max_running=1, quotas=Quotas(queued_per_tenant=2)) as app:
        for name in ("a1", "a2", "a3", "b1"):
            script = [call_tool(("hold", {"who": name})), answer("ok")]
            app.register(Agent(agent_id=name, model=ScriptedChatModel(script), tools=(hold,), mode="react"))
        rows = [await app.start("go", agent=name, session_id=f"a:{name}") for name in ("a1", "a2", "a3")]
        with pytest.raises(TooManyTasks, match="of this tenant wait"):
            await app.start("go", agent="a3", session_id="a:late")
        rows.append(await app.start("go", agent="b1", session_id="b:b1"))
        gate.set()
        for row in rows:
            async for _ in app.follow(row.task_id):
                pass
        assert begun.index("b1") <= 2 and await app.tasks.list(session_id="a:late") == []


@pytest.mark.postgres
async def test_tasks_that_wait_for_workers_are_counted_in_the_database(postgres_url: str) -> None:
    quotas = Quotas(queued_per_user=2, queued_per_tenant=3)
    async with segue.open(postgres_url, dispatch="always", quotas=quotas) as app:
        for number in range(2):
            await app.start("go", session_id=f"a:{number}", user_id="a:u")
        with pytest.raises(TooManyTasks, match="of this user wait: 2 is the limit"):
            await app.start("go", session_id="a:2", user_id="a:u")
        assert await app.tasks.list(session_id="a:2") == []
        late = [app.start("go", session_id=f"a:late{n}", user_id=f"a:{n}") for n in range(4)]
        refused = await asyncio.gather(*late, return_exceptions=True)
        assert sum(isinstance(each, TooManyTasks) for each in refused) == 3
        for name in ("b:1", "plain"):
            await app.start("go", session_id=name, user_id="a:u")


@pytest.mark.postgres
async def test_workers_fetch_tenants_tasks_in_turns(postgres_url: str) -> None:
    """A thousand tasks of one tenant are queued before one of another, which is fetched second at most."""
    storage = await open_storage(postgres_url)
    try:
        for number, thread in enumerate([*(f"a:{n}" for n in range(MANY)), "b:1", "b:2"]):
            task = NewTask(
                task_id=f"t{number}", session_id=thread, agent_id="x", user_id="u", mode="react", model="", message="m"
            )
            await storage.tasks.create(task)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SET search_path TO segue")
            connection.execute(WAKE, ("a:",))
            fetched = [fetch(connection) for _ in range(500)]
            assert fetched == [f"t{n}" for n in range(500)]
            connection.execute(WAKE, ("b:",))
            order = [fetch(connection) for _ in range(5)]
            assert order == ["t500", "t1000", "t501", "t1001", "t502"]
    finally:
        await storage.close()


def fetch(connection: "psycopg.Connection[tuple[object, ...]]") -> str:
    """What a worker would run next; it is not queued any more."""
    row = connection.execute(
        "DELETE FROM procrastinate_jobs WHERE id = (SELECT id FROM procrastinate_jobs WHERE status = 'todo' "
        "ORDER BY priority DESC, id LIMIT 1) RETURNING args ->> 'task_id'"
    ).fetchone()
    assert row
    return str(row[0])


def test_the_agents_file_sets_the_quotas(tmp_path: Path) -> None:
    file = tmp_path / "agents.toml"
    file.write_text("[quotas]\ntasks_per_user = 2\n")
    assert load_quotas(file) == Quotas(tasks_per_user=2)
    file.write_text("[quotas]\ntasks_per_users = 2\n")
    with pytest.raises(ConfigurationError, match=r"\[quotas\] table of .*tasks_per_users"):
        load_quotas(file)
