"""`segue doctor` on a PostgreSQL database: what it holds, what hinders, and no password."""

import asyncio
from collections.abc import Iterator

import pytest

import segue
from segue.checkpoints.postgres.database import open_database
from segue.checkpoints.storage import open_storage
from segue.cli.commands.doctor import Finding, _database
from segue.cli.settings import Settings
from segue.core.records import NewTask, Worker
from segue.core.task import TaskStatus
from segue.prompts.catalogue import Language
from tests.postgres import Cluster


async def findings(url: str, language: Language = "en") -> list[Finding]:
    return await asyncio.to_thread(lambda: [*_database(Settings(database=url), language)])


async def looked_at(url: str) -> Finding:
    (found,) = await findings(url)
    (chinese,) = await findings(url, "zh")
    assert chinese.ok == found.ok
    assert "s3cret" not in found.detail + chinese.detail
    return found


@pytest.fixture
def guard(postgres: Cluster, postgres_url: str) -> Iterator[str]:
    """The database's URL for a user who may not do anything."""
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute("CREATE ROLE visitor LOGIN")
    yield postgres.url(name, "visitor", "s3cret")
    postgres.execute("DROP OWNED BY visitor", database=name)
    postgres.execute("DROP ROLE visitor")


async def test_a_database_is_described_and_an_empty_one_left_empty(postgres_url: str) -> None:
    for _ in range(2):
        empty = await looked_at(postgres_url)
        assert empty.ok and "has no tables of Segue yet" in empty.detail
    async with await open_database(postgres_url):
        found = await looked_at(postgres_url)
    assert (
        found.ok and "writable, schema version" in found.detail and "live leases: 0, workers: 0, tasks" in found.detail
    )


async def test_workers_with_different_versions_of_an_agent_are_reported(postgres_url: str) -> None:
    storage = await open_storage(postgres_url)
    for owner, digest in (("one", "1"), ("two", "2")):
        agents = {"same": ["1"], "payer": [digest]}
        await storage.workers.report(Worker(owner=owner, agents=agents, modes=["react"], concurrency=1))
    await storage.close()
    _, differ = await findings(postgres_url)
    assert differ.ok is None and "versions of these agents differ between workers: payer;" in differ.detail


async def test_tasks_that_no_process_runs_and_those_that_wait_for_a_worker_are_named(postgres_url: str) -> None:
    storage = await open_storage(postgres_url)
    named = {"task_id": "killed-1", "session_id": "s", "agent_id": "travel", "user_id": "ann"}
    new = NewTask(**named, mode="direct", model="offline", message="hello")
    await storage.tasks.create(new)
    await storage.tasks.move(new.task_id, TaskStatus.RUNNING)
    await storage.close()
    async with segue.open(postgres_url, dispatch="always") as app:
        queued = await app.start("hello", mode="direct", model="offline")
    _, interrupted, waiting = await findings(postgres_url)
    assert interrupted.ok is None and "unfinished, and not running in any process (1): killed-1; " in interrupted.detail
    assert f"waiting for a worker with their agent (1): {queued.task_id[:8]}; " in waiting.detail


async def test_what_hinders_is_said(postgres: Cluster, postgres_url: str, guard: str) -> None:
    assert "this user cannot create Segue's tables: grant it CREATE" in (await looked_at(guard)).detail
    async with await open_database(postgres_url):
        denied = await looked_at(guard)
    assert denied.ok is False and "has no access to the tables audit, branches, calls, " in denied.detail
    away = await looked_at("postgresql://ann:s3cret@127.0.0.1:1/segue")
    assert away.ok is False and "cannot be reached" in away.detail
    name = postgres_url.partition("?")[0].rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert "is read-only: name the primary server" in (await looked_at(postgres_url)).detail
    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
