"""Leases: dispatch, hand-over and take-over by another process of the database, clocks, and the heartbeat."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import segue
from segue import tool
from segue.app import App
from segue.checkpoints import storage
from segue.checkpoints.ports import Database
from segue.checkpoints.sqlite.database import SqliteBackend, SqliteDatabase, open_database
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError, DatabaseUnavailable, ModelUnreachable, TaskError, ThreadBusy
from segue.core.events import Paused
from segue.core.records import Worker
from segue.runtime import runner, worker
from segue.runtime.relay import Notices
from segue.runtime.runner import Heartbeat, LeaseHolder
from segue.runtime.worker import MAX_TAKEOVERS, dispatching, exceeds_takeovers
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.runtime.polling_workers import PollingWorkers


class Till:
    """A tool whose effects can be counted, and that can be held up."""

    def __init__(self) -> None:
        self.effects: list[int] = []
        self.gate = asyncio.Event()
        self.entered = asyncio.Event()

    async def pay(self, number: int) -> int:
        """Pay."""
        self.entered.set()
        await self.gate.wait()
        self.effects.append(number)
        return number


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "segue.db"
    monkeypatch.setattr(SqliteBackend, "workers", PollingWorkers(file))
    return file


def agent(till: Till, *replies: Any) -> Agent:
    return Agent(agent_id="payer", model=ScriptedChatModel(replies), tools=(till.pay,), mode="react")


@pytest.fixture
async def sender(database: Path, till: Till) -> AsyncIterator[App]:
    async with segue.open(database, agents=[agent(till, answer("not me"))], dispatch="always") as app:
        yield app


@asynccontextmanager
async def working(database: Path, *agents: Agent) -> AsyncIterator[tuple[App, Callable[[], Awaitable[None]]]]:
    """An app whose worker runs, and what stops the worker."""
    async with segue.open(database, agents=agents, dispatch="never") as app:
        worker = app.worker(2)
        run = asyncio.create_task(worker.run(5.0))

        async def stop() -> None:
            worker.stop()
            await run

        yield app, stop
        if not run.done():
            await stop()


async def reported(app: App, workers: int) -> None:
    """Wait until so many workers are known."""
    while len(await app.tasks.workers()) < workers:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)


async def stopping_soon(app: App, task_id: str) -> None:
    """Wait until a running task was told to stop at its next boundary."""
    while (run := app._runner.run_of(task_id)) and not run.reason:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0.01)


async def types(app: App, task_id: str) -> list[str]:
    return [event.type for event in await app.events(task_id)]


async def start(app: App, **options: Any) -> str:
    return str((await app.start("pay", agent="payer", session_id="s", **options)).task_id)


async def handed_over(database: Path, sender: App, till: Till) -> str:
    """A task whose worker stopped after the first of its two calls."""
    calls = call_tool(("pay", {"number": 1}), ("pay", {"number": 2}))
    async with working(database, agent(till, calls)) as (app, stop):
        task_id = await start(sender)
        await till.entered.wait()
        stopping = asyncio.create_task(stop())
        await stopping_soon(app, task_id)
        till.gate.set()
        await stopping
    return task_id


async def test_a_worker_runs_what_another_process_was_sent(database: Path, sender: App, till: Till) -> None:
    till.gate.set()
    async with working(database, agent(till, call_tool(("pay", {"number": 1})), answer("paid"))):
        result = await sender.ask("pay", agent="payer", session_id="s")
    assert (result["answer"], result["status"], till.effects) == ("paid", "done", [1])


async def test_a_task_that_waits_for_a_worker_keeps_its_session_and_says_so(
    database: Path, sender: App, till: Till
) -> None:
    task_id = await start(sender)
    following = aiter(sender.follow(task_id))
    assert (await anext(following)).type == "waiting"
    assert [task.task_id for task in await sender.tasks.waiting_for_worker()] == [task_id]
    assert await sender.resumable() == []
    with pytest.raises(ThreadBusy):
        await start(sender)
    async with working(database, agent(till, answer("paid"), answer("paid again"))):
        second = asyncio.create_task(sender.ask("again", agent="payer", session_id="s", wait=10))
        assert "task_complete" in [event.type async for event in following]
        assert (await second)["answer"] == "paid again"


async def test_a_worker_that_stops_hands_its_task_over_at_a_boundary(database: Path, sender: App, till: Till) -> None:
    task_id = await handed_over(database, sender, till)
    assert (await sender.task(task_id)).status == "running"
    assert till.effects == [1]
    async with working(database, agent(till, answer("paid"))):
        async for _ in sender.follow(task_id):
            pass
    assert (await sender.task(task_id)).status == "done"
    assert till.effects == [1, 2]
    assert not {"paused", "resumed"} & {*await types(sender, task_id)}


async def test_a_task_whose_worker_is_gone_is_taken_over(database: Path, sender: App, till: Till) -> None:
    till.gate.set()
    task_id = await start(sender)
    async with segue.open(database, agents=[agent(till)]) as dead:
        leases = dead._runner.leases
        await leases._lease.acquire("s", "elsewhere:1:x", ttl=0.3)
    async with working(database, agent(till, answer("paid"))):
        async for _ in sender.follow(task_id):
            pass
    assert (await sender.task(task_id)).status == "done"


async def test_pause_and_cancel_reach_a_worker_and_a_task_that_none_has(
    database: Path, sender: App, till: Till
) -> None:
    task_id = await start(sender)
    await sender.pause(task_id)
    assert (await sender.task(task_id)).status == "paused"
    async with working(database, agent(till, call_tool(("pay", {"number": 1})))):
        resumed = asyncio.create_task(sender.resume(task_id))
        await till.entered.wait()
        await sender.pause(task_id)
        till.gate.set()
        assert (await resumed)["status"] == "paused"
        await sender.cancel(task_id)
    assert (await sender.task(task_id)).status == "cancelled"


async def test_the_error_of_a_worker_is_raised_where_the_result_is_awaited(
    database: Path, sender: App, till: Till
) -> None:
    failing = agent(till, ModelUnreachable("the endpoint is down"))
    async with working(database, failing):
        with pytest.raises(TaskError, match="the endpoint is down"):
            await sender.ask("pay", agent="payer", session_id="s")


async def test_tasks_of_agents_that_no_worker_has_are_run_here(database: Path, till: Till) -> None:
    till.gate.set()
    async with working(database), segue.open(database, agents=[agent(till, answer("here"))]) as app:
        assert (await app.ask("pay", agent="payer"))["answer"] == "here"


async def test_a_task_is_left_to_workers_with_its_version_of_the_agent(
    database: Path, sender: App, till: Till, caplog: pytest.LogCaptureFixture
) -> None:
    till.gate.set()
    changed = agent(till, answer("changed")).model_copy(update={"prompt": "Pay twice."})
    async with working(database, changed), working(database, agent(till, answer("same"))):
        await reported(sender, 2)
        assert (await sender.ask("pay", agent="payer"))["answer"] == "same"
    assert "another version" not in caplog.text
    async with working(database, changed):
        result = await sender.ask("pay", agent="payer")
    assert result["answer"] == "changed"
    assert "another version of its agent payer" in caplog.text


async def test_a_task_that_goes_on_with_a_changed_agent_says_so(database: Path, sender: App, till: Till) -> None:
    task_id = await handed_over(database, sender, till)
    changed = agent(till, answer("paid")).model_copy(update={"prompt": "Pay twice."})
    async with working(database, changed):
        async for _ in sender.follow(task_id):
            pass
    resumed = [event for event in await sender.events(task_id) if event.type == "resumed"]
    assert [event.data for event in resumed] == [{"agent_changed": True}]


async def test_a_call_is_approved_where_only_a_worker_still_has_its_tool(database: Path, till: Till) -> None:
    till.gate.set()
    asking = tool(needs_approval=True)(till.pay)
    payer = agent(till, call_tool(("pay", {"number": 1})), answer("paid")).model_copy(update={"tools": (asking,)})
    lacking = agent(till).model_copy(update={"tools": ()})
    async with segue.open(database, agents=[lacking]) as app, working(database, payer) as (having, _):
        task_id = (await having.ask("pay", agent="payer"))["task_id"]
        await reported(app, 1)
        assert (await app.answer(task_id, "approve"))["answer"] == "paid"


async def test_without_a_worker_with_its_version_of_the_agent_a_process_runs_its_tasks(
    database: Path, till: Till
) -> None:
    changed = agent(till, answer("changed")).model_copy(update={"prompt": "Pay twice."})
    async with working(database, changed), segue.open(database, agents=[agent(till, answer("here"))]) as app:
        await reported(app, 1)
        assert (await app.ask("pay", agent="payer"))["answer"] == "here"


async def test_a_worker_logs_once_that_the_database_is_gone_and_once_that_it_is_back(
    database: Path, till: Till, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REPORT_EVERY", 0.01)
    outage, back = [DatabaseUnavailable("The server is gone.")] * 3, asyncio.Event()

    class Leaving(PollingWorkers):
        async def report(self, worker: Worker) -> None:
            if outage:
                raise outage.pop()
            if self._workers:
                back.set()
            await super().report(worker)

    monkeypatch.setattr(SqliteBackend, "workers", Leaving(database))
    with caplog.at_level("INFO", worker.__name__):
        async with working(database, agent(till)):
            await back.wait()
    said = [record.message for record in caplog.records if record.name == worker.__name__]
    assert said == ["The server is gone.", "The database can be used again."]


def test_where_tasks_run_is_one_of_three() -> None:
    assert dispatching(None, {}) == "auto"
    assert dispatching(None, {"SEGUE_DISPATCH": "never"}) == "never"
    assert dispatching("always", {"SEGUE_DISPATCH": "never"}) == "always"
    with pytest.raises(ConfigurationError, match="auto, always or never"):
        dispatching("sometimes", {})


async def test_sqlite_has_no_workers(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="PostgreSQL"):
        await segue.open(tmp_path / "s.db", dispatch="always")
    async with segue.open(tmp_path / "s.db") as app:
        with pytest.raises(ConfigurationError, match="PostgreSQL"):
            app.worker(1)


@pytest.mark.parametrize(
    ("told", "hopeless"), [(["resumed"] * MAX_TAKEOVERS, True), (["resumed", "thinking"] * 9, False)]
)
def test_a_task_that_only_ends_its_workers_is_hopeless(told: list[str], hopeless: bool) -> None:
    assert exceeds_takeovers(told) is hopeless


# Whose thread it is, where clocks jump, processes freeze and descriptors run out, and the heartbeat.


TTL = 0.6


@pytest.fixture
async def lease_holder_database(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    async with await open_database(str(tmp_path / "segue.db")) as opened:
        yield opened


def holder(lease_holder_database: SqliteDatabase) -> LeaseHolder:
    return LeaseHolder(
        storage.Storage(SqliteBackend(lease_holder_database)), Notices(None), lambda _: None, lambda *_: None, ttl=TTL
    )


async def jump(lease_holder_database: Database) -> None:
    """Let every lease be expired, as a clock does that jumps forward."""
    await lease_holder_database.write(lambda connection: connection.execute("UPDATE leases SET expires_at = 1"))


async def test_a_clock_that_jumps_takes_no_thread_from_an_owner_that_renews_it(lease_holder_database: Database) -> None:
    mine, yours = holder(lease_holder_database), holder(lease_holder_database)
    fence = await mine.take("s")
    await jump(lease_holder_database)
    with pytest.raises(ThreadBusy):
        await yours.take("s")
    await jump(lease_holder_database)
    with pytest.raises(ThreadBusy):
        await mine.take("s")
    await mine.release("s", fence)
    assert await yours.take("s") > fence
    await mine.close()
    await yours.close()


async def test_an_owner_that_renews_nothing_any_more_loses_the_thread(lease_holder_database: Database) -> None:
    frozen, yours = holder(lease_holder_database), holder(lease_holder_database)
    fence = await frozen.take("s")
    await frozen.close()
    await jump(lease_holder_database)
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
