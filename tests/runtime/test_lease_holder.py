"""Whose thread it is, where clocks jump, processes freeze and descriptors run out, and the heartbeat."""

import threading
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import pytest

import segue
from segue.checkpoints import storage
from segue.checkpoints.ports import Database
from segue.checkpoints.sqlite.database import SqliteBackend, SqliteDatabase, open_database
from segue.core.agents import Agent
from segue.core.errors import DatabaseUnavailable, ThreadBusy
from segue.core.events import Paused
from segue.runtime import runner
from segue.runtime.relay import Notices
from segue.runtime.runner import Heartbeat, LeaseHolder
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
    monkeypatch.setattr(runner, "Heartbeat", partial(Heartbeat, clock=lambda: next(ticks)))
    ticks = iter(range(0, 10_000, 20))  # each look at the clock is later than a lease lives

    async def work() -> str:
        """Work while a renewal of the leases fails."""
        app._runner.leases._heartbeat.beat()
        return "worked"

    async with segue.open(":memory:") as app:
        script = [call_tool(("work", {})), answer("ok")]
        app.register(Agent(agent_id="a", model=ScriptedChatModel(script), tools=(work,), mode="react"))
        task = await app.start("go", agent="a")
        events = [event async for event in app.follow(task.task_id)]
        [paused] = [event for event in events if isinstance(event, Paused)]
        assert paused.reason == (
            "the session's lease could not be renewed: The database cannot be opened: too many open files."
        )
        assert (await app.task(task.task_id)).status == "paused"


class Storage:
    """Renews what it is asked to; `lost` are threads that another owner took, `broken` means no descriptor left."""

    def __init__(self) -> None:
        self.lost: set[str] = set()
        self.broken = False
        self.renewed: list[set[str]] = []
        self.beats = threading.Semaphore(0)
        self.closed = False

    def renew(self, fences: Mapping[str, int], ttl: float) -> set[str]:
        self.beats.release()
        if self.broken:
            raise DatabaseUnavailable("Too many open files.")
        self.renewed.append(set(fences))
        return self.lost & fences.keys()

    def close(self) -> None:
        self.closed = True


class Watched:
    """A heartbeat by hand: `now` is its clock, and `said` what it reported."""

    def __init__(self) -> None:
        self.now = 100.0
        self.said: list[tuple[str, ...]] = []
        self.storage = Storage()
        self.heartbeat = Heartbeat(
            self.storage,
            lambda thread_id: self.said.append(("lost", thread_id)),
            lambda thread_id, why: self.said.append(("overdue", thread_id, why)),
            ttl=3600,  # its own thread does not beat during a test
            clock=lambda: self.now,
        )


def test_one_renewal_covers_every_thread_that_is_held() -> None:
    watched, others = Watched(), {*threading.enumerate()}
    for name in ("a", "b", "c"):
        watched.heartbeat.hold(name, 1)
    watched.heartbeat.drop("c")
    assert watched.heartbeat.beat()
    assert watched.storage.renewed == [{"a", "b"}]
    assert [thread.name for thread in threading.enumerate() if thread not in others] == ["segue-heartbeat"]
    watched.heartbeat.close()
    assert watched.storage.closed


def test_a_lost_lease_is_reported_once() -> None:
    watched = Watched()
    watched.heartbeat.hold("a", 1)
    watched.heartbeat.hold("b", 1)
    watched.storage.lost = {"a"}
    assert watched.heartbeat.beat() and watched.heartbeat.beat()
    assert watched.said == [("lost", "a")]
    assert (watched.heartbeat.fence_of("a"), watched.heartbeat.fence_of("b")) == (False, True)
    watched.heartbeat.close()


def test_a_renewal_that_fails_is_tried_again_and_reported_only_when_the_lease_runs_out() -> None:
    watched = Watched()
    watched.heartbeat.hold("a", 1)
    watched.storage.broken = True
    watched.now += 3599
    assert not watched.heartbeat.beat()
    assert watched.said == []
    watched.now += 1
    assert not watched.heartbeat.beat() and not watched.heartbeat.beat()
    assert watched.said == [("overdue", "a", "Too many open files.")]
    watched.storage.broken = False
    assert watched.heartbeat.beat()
    assert watched.storage.renewed == [{"a"}]
    watched.heartbeat.close()


def test_the_thread_goes_on_after_failures_of_the_storage() -> None:
    storage = Storage()
    storage.broken = True
    heartbeat = Heartbeat(storage, lambda _: None, lambda *_: None, ttl=0.03)
    heartbeat.hold("a", 1)
    for _ in range(3):
        assert storage.beats.acquire(timeout=30)
    storage.broken = False
    assert storage.beats.acquire(timeout=30)
    heartbeat.close()
    assert storage.closed
