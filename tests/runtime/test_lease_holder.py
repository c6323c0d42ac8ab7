"""Whose thread it is, where clocks jump, processes freeze and descriptors run out."""

from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest

import segue
from segue.checkpoints import storage
from segue.checkpoints.ports import Database
from segue.checkpoints.sqlite.backend import SqliteBackend
from segue.checkpoints.sqlite.database import SqliteDatabase, open_database
from segue.core.agents import Agent
from segue.core.errors import DatabaseUnavailable, ThreadBusy
from segue.core.events import Paused
from segue.runtime import lease_holder
from segue.runtime.lease_holder import Heartbeat, LeaseHolder
from segue.runtime.relay import Notices
from tests.fakes import ScriptedChatModel, answer, call_tool

TTL = 0.6


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with await open_database(str(tmp_path / "segue.db")) as opened:
        yield opened


def holder(database: SqliteDatabase) -> LeaseHolder:
    return LeaseHolder(
        storage.Storage(SqliteBackend(database)), Notices(None), lambda _: None, lambda *_: None, ttl=TTL
    )


async def jump(database: Database) -> None:
    """Let every lease be expired, as a clock does that jumps forward."""
    await database.write(lambda connection: connection.execute("UPDATE leases SET expires_at = 1"))


async def test_a_clock_that_jumps_takes_no_thread_from_an_owner_that_renews_it(database: Database) -> None:
    mine, yours = holder(database), holder(database)
    fence = await mine.take("s")
    await jump(database)
    with pytest.raises(ThreadBusy):
        await yours.take("s")
    await jump(database)
    with pytest.raises(ThreadBusy):
        await mine.take("s")
    await mine.release("s", fence)
    assert await yours.take("s") > fence
    await mine.close()
    await yours.close()


async def test_an_owner_that_renews_nothing_any_more_loses_the_thread(database: Database) -> None:
    frozen, yours = holder(database), holder(database)
    fence = await frozen.take("s")
    await frozen.close()
    await jump(database)
    assert await yours.take("s") > fence
    await yours.close()


class NoDescriptors:
    """A renewal as it fails when the process may open no more files."""

    def __init__(self, _: Database) -> None:
        pass

    def renew(self, fences: Mapping[str, int], ttl: float) -> set[str]:
        raise DatabaseUnavailable("The database cannot be opened: too many open files.")

    def close(self) -> None:
        pass


async def test_a_task_whose_lease_cannot_be_renewed_pauses_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "Renewal", NoDescriptors)
    monkeypatch.setattr(lease_holder, "Heartbeat", partial(Heartbeat, clock=lambda: next(ticks)))
    ticks = iter(range(0, 10_000, 20))  # each look at the clock is later than a lease lives

    async def work() -> str:
        """Work while a renewal of the leases fails."""
        app._runner.leases._heartbeat.beat()
        return "worked"

    async with segue.open(":memory:") as app:
        script = [call_tool(("work", {})), answer("ok")]
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(work,), mode="react"))
        task = await app.start("go", agent="a")
        events = [event async for event in app.follow(task["task_id"])]
        [paused] = [event for event in events if isinstance(event, Paused)]
        assert paused.reason == (
            "the session's lease could not be renewed: The database cannot be opened: too many open files."
        )
        assert (await app.task(task["task_id"]))["status"] == "paused"
