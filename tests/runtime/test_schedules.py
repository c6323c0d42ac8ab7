"""Messages for later: each run once, by whichever process is there, whatever becomes of the others."""

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import segue
from segue.app import App
from segue.checkpoints.due import DueKind, DueMoments
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError, InvalidMessage, KeyUsed, SegueError, UnknownAgent, UnknownSchedule
from segue.core.records import Task
from segue.core.schedules import RunTaken, Schedule, ScheduledRun, load_schedules
from segue.core.spend import Quotas
from segue.runtime.start import Request
from segue.runtime.worker import Due
from tests.cli.process import SERVER, run_elsewhere
from tests.fakes import FixedClock, ScriptedChatModel, answer, call_tool

DAY = 86_400.0
DAYS = 7
BEGIN = datetime(2027, 1, 1, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(BEGIN)


@segue.tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def open_app(path: Path, clock: Callable[[], float], *script: Any) -> Any:
    model = ScriptedChatModel([*script])
    agent = Agent(agent_id="a", model=model, tools=(pay,), mode="react")
    return segue.open(path, agents=[agent], clock=clock)


class SlowJob:
    """Something that is due once, and takes its time to begin."""

    def __init__(self) -> None:
        self.is_due, self.has_begun, self.go = True, False, asyncio.Event()

    async def take(self, now: float) -> None:
        is_due, self.is_due = self.is_due, False
        if is_due:
            await self.go.wait()
            self.has_begun = True


class AlwaysDue(DueMoments):
    """A database in which a schedule is due."""

    def __init__(self) -> None:
        pass

    async def next(self, kinds: Collection[DueKind]) -> dict[DueKind, float]:
        return {"schedule": 0.0}


async def test_what_another_look_is_just_beginning_has_begun_after_ones_own() -> None:
    due, job = Due(AlwaysDue(), lambda: BEGIN), SlowJob()
    due.jobs["schedule"] = job
    looks = [asyncio.create_task(due.take()), asyncio.create_task(due.take())]
    asyncio.get_running_loop().call_later(0.01, job.go.set)
    await looks[1]
    assert job.has_begun
    await looks[0]


async def test_a_key_stands_for_one_schedule(tmp_path: Path, clock: FixedClock) -> None:
    options: dict[str, Any] = {"every": "0 9 * * *", "agent": "a", "idempotency_key": "k"}
    async with open_app(tmp_path / "segue.db", clock) as app:
        made = await app.start("go", **options)
        assert (await app.start("go", **options)).schedule_id == made.schedule_id
        for other in ({"every": "0 10 * * *"}, {"every": None, "at": BEGIN + 60}, {"missed": "all"}):
            with pytest.raises(KeyUsed):
                await app.start("go", **{**options, **other})
        with pytest.raises(KeyUsed):
            await app.start("stop", **options)
        assert [each.every for each in await app.schedules.list()] == ["0 9 * * *"]


async def test_a_request_that_is_sent_again_after_its_run_gives_the_same_schedule(
    tmp_path: Path, clock: FixedClock
) -> None:
    options: dict[str, Any] = {"at": BEGIN + 60, "agent": "a", "idempotency_key": "k"}
    async with open_app(tmp_path / "segue.db", clock, answer("one")) as app:
        made = await app.start("go", **options)
        clock.now += 120
        assert (await app.start("go", **options)).schedule_id == made.schedule_id
        await app.schedules.run_due()
        await ended(app, 1)
        assert (await app.start("go", **options)).is_active == 0


async def test_a_deleted_session_does_not_come_back_by_its_schedule(tmp_path: Path, clock: FixedClock) -> None:
    async with open_app(tmp_path / "segue.db", clock, answer("one"), answer("two")) as app:
        kept = await app.start("go", every="0 0 * * *", agent="a")
        await app.start("go", every="0 0 * * *", agent="a", session_id="s")
        clock.now += DAY
        await app.schedules.run_due()
        await ended(app, 2)
        await app.sessions.delete("s")
        assert [each.schedule_id for each in await app.schedules.list()] == [kept.schedule_id]


async def test_a_schedule_that_cannot_run_here_keeps_no_other_from_it(tmp_path: Path, clock: FixedClock) -> None:
    file = tmp_path / "segue.db"
    async with open_app(file, clock, answer("yes")) as app:
        lost = await app.start("lost", every="0 0 * * *", agent="a")
        damaged = await app.start("damaged", every="0 0 * * *", agent="a")
        wrong = await app.start("wrong", every="0 0 * * *", agent="a")
        await app.start("fine", every="1 0 * * *", agent="a")
        change = "UPDATE schedules SET {} WHERE schedule_id = ?"
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(change.format("timezone = 'Nowhere'"), (lost.schedule_id,))
            connection.execute(change.format("options = '{'"), (damaged.schedule_id,))
            connection.execute(change.format("every = 'often'"), (wrong.schedule_id,))
        clock.now += DAY
        await app.schedules.run_due()
        assert [task.message for task in await ended(app, 1)] == ["fine"]
        assert "'often'" in str((await app.schedules.get(wrong.schedule_id)).problem)
        assert len(await app.schedules.list()) == 3
        await app.sessions.delete((await ended(app, 1))[0].session_id)
        assert "no time zone 'Nowhere'" in str((await app.schedules.get(lost.schedule_id)).problem)


async def ended(app: App, count: int) -> list[Task]:
    """The tasks, oldest first, once so many have stopped."""
    for _ in range(500):
        tasks = [task for task in reversed(await app.tasks.list()) if task.status in ("done", "waiting")]
        if len(tasks) >= count:
            return tasks
        await asyncio.sleep(0.01)
    raise AssertionError(f"{len(await app.tasks.list())} tasks")


async def test_a_message_is_sent_at_its_moment_and_once(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, answer("Good morning.")) as app:
        made = await app.start("Say hello.", at=BEGIN + 60, session_id="s", agent="a")
        assert (made.due, made.session_id, made.is_active) == (BEGIN + 60, "s", 1)
        await app.schedules.run_due()
        assert await app.tasks.list() == []
        clock.now += 61
        await app.schedules.run_due()
        (task,) = await ended(app, 1)
        assert (task.message, task.session_id, (task.result or {})["answer"]) == ("Say hello.", "s", "Good morning.")
        clock.now += DAY
        await app.schedules.run_due()
        assert len(await app.tasks.list()) == 1
        after = (await app.schedules.get(made.schedule_id)).json()
        assert (after["active"], after["next_run"], after["last_task"]) == (False, None, task.task_id)


async def test_mornings_are_simulated_in_a_moment(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, *[answer(str(n)) for n in range(DAYS)]) as app:
        await app.start("The weather?", every="0 9 * * *", timezone="Asia/Shanghai", agent="a", mode="direct")
        for day in range(DAYS):
            clock.now = BEGIN + (day + 1) * DAY
            await app.schedules.run_due()
            await ended(app, day + 1)
        tasks = await ended(app, DAYS)
        assert len(tasks) == DAYS == len({task.session_id for task in tasks})
        assert tasks[0].session_id.endswith("-20270102T010000"), "09:00 in Shanghai is 01:00 UTC"


@pytest.mark.parametrize(("missed", "runs"), [("once", 1), ("skip", 0), ("all", 3)])
async def test_runs_that_no_process_was_there_for(database: Path, clock: FixedClock, missed: Any, runs: int) -> None:
    async with open_app(database, clock) as app:
        made = await app.start("m", every="0 9 * * *", timezone="UTC", missed=missed, agent="a", mode="direct")
    clock.now += 3 * DAY
    async with open_app(database, clock, *[answer("x")] * runs) as app:
        for run in range(3):
            await app.schedules.run_due()
            await ended(app, min(run + 1, runs))
        assert len(await app.tasks.list()) == runs
        now = await app.schedules.get(made.schedule_id)
        assert now.due == datetime(2027, 1, 5, 9, tzinfo=UTC).timestamp()
        assert now.problem == ("no process was running" if missed == "skip" else None)


@pytest.mark.parametrize("overlap", ["skip", "queue"])
async def test_a_run_while_the_last_one_is_unfinished(database: Path, clock: FixedClock, overlap: Any) -> None:
    async with open_app(database, clock, call_tool(("pay", {"amount": 1})), answer("one"), answer("two")) as app:
        made = await app.start("m", every="0 9 * * *", timezone="UTC", overlap=overlap, session_id="s", agent="a")
        clock.now += DAY
        await app.schedules.run_due()
        (first,) = await ended(app, 1)
        assert first.status == "waiting"
        clock.now += DAY
        await app.schedules.run_due()
        assert len(await app.tasks.list()) == 1
        await app.answer(first.task_id, "approve")
        clock.now += 6
        await app.schedules.run_due()
        tasks = await ended(app, 1 if overlap == "skip" else 2)
        assert len(tasks) == (1 if overlap == "skip" else 2)
        problem = (await app.schedules.get(made.schedule_id)).problem
        assert problem == ("the last run is unfinished" if overlap == "skip" else None)


async def test_a_busy_session_is_waited_for(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, call_tool(("pay", {"amount": 1})), answer("one"), answer("two")) as app:
        asked = await app.ask("pay", session_id="s", agent="a")
        await app.start("m", every="0 9 * * *", timezone="UTC", session_id="s", agent="a")
        clock.now += DAY
        await app.schedules.run_due()
        assert len(await app.tasks.list()) == 1, "its session has a task that waits for a person"
        await app.answer(asked["task_id"], "approve")
        clock.now += 6
        await app.schedules.run_due()
        assert [task.message for task in await ended(app, 2)] == ["pay", "m"]


async def test_of_many_apps_one_starts_a_run(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, answer("1")) as one, open_app(database, clock, answer("1")) as two:
        await one.start("m", at=BEGIN + 1, agent="a", mode="direct")
        clock.now += 2
        await asyncio.gather(*(app.schedules.run_due() for app in (one, two) for _ in range(5)))
        await ended(one, 1)
        assert len(await one.tasks.list()) == 1


async def test_a_run_that_was_taken_stores_no_task(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock) as app:
        made = await app.schedules.create("m", {"at": BEGIN + 1, "agent": "a", "mode": "direct"})
        await app.schedules.pause(made.schedule_id)
        with pytest.raises(RunTaken):
            await app.tasks.start(
                replace(Request.of("m", {"agent": "a"}), run=ScheduledRun(made.schedule_id, BEGIN + 1, None))
            )
        assert await app.tasks.list() == []


async def test_the_poller_runs_what_is_due_by_itself(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, answer("later")) as app:
        await app.start("m", at=BEGIN + 0.2, agent="a", mode="direct")
        clock.now += 1
        assert [task.message for task in await ended(app, 1)] == ["m"]


async def test_an_agent_that_is_not_here_leaves_its_runs_to_others(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock) as app:
        await app.start("m", at=BEGIN + 1, agent="a", mode="direct")
    clock.now += 2
    async with segue.open(database, clock=clock) as other:
        await other.schedules.run_due()
        assert await other.tasks.list() == []
    async with open_app(database, clock, answer("x")) as app:
        await app.schedules.run_due()
        await ended(app, 1)


async def test_a_run_that_cannot_start_says_why_and_is_tried_again(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, answer("x")) as app:
        made = await app.schedules.create("m", {"at": BEGIN + 1, "agent": "a", "mode": "direct"})
        app.register(Agent(agent_id="a", model="nobody:m", mode="direct"))
        clock.now += 2
        await app.schedules.run_due()
        assert "is not known" in str((await app.schedules.get(made.schedule_id)).problem)
        app.register(Agent(agent_id="a", model=ScriptedChatModel([answer("x")]), mode="direct"))
        clock.now += 61
        await app.schedules.run_due()
        await ended(app, 1)
        assert (await app.schedules.get(made.schedule_id)).problem is None


async def test_schedules_are_paused_resumed_and_deleted(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, answer("x")) as app:
        made = await app.schedules.create(
            "m", {"every": "0 9 * * *", "timezone": "UTC", "agent": "a", "mode": "direct"}
        )
        once = await app.schedules.create("m", {"at": BEGIN + 5, "agent": "a"})
        assert [each.schedule_id for each in await app.schedules.list()] == [once.schedule_id, made.schedule_id]
        for each in (made, once):
            await app.schedules.pause(each.schedule_id)
        clock.now += 2 * DAY
        await app.schedules.run_due()
        assert await app.tasks.list() == []
        resumed = await app.schedules.resume(made.schedule_id)
        assert resumed.due == datetime(2027, 1, 4, 9, tzinfo=UTC).timestamp()
        with pytest.raises(InvalidMessage, match="has no future runs"):
            await app.schedules.resume(once.schedule_id)
        await app.schedules.delete(made.schedule_id)
        with pytest.raises(UnknownSchedule):
            await app.schedules.delete(made.schedule_id)


async def test_an_active_schedule_that_is_resumed_keeps_its_run(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock, answer("x")) as app:
        made = await app.schedules.create("m", {"at": BEGIN + 5, "agent": "a", "mode": "direct"})
        clock.now += 10
        assert await app.schedules.resume(made.schedule_id) == made
        await app.schedules.run_due()
        await ended(app, 1)


async def test_a_run_whose_process_ended_is_resumed_and_blocks_no_other(database: Path, clock: FixedClock) -> None:
    began, goes_on = asyncio.Event(), asyncio.Event()

    @segue.tool
    async def work() -> str:
        """Work until the process ends."""
        began.set()
        await goes_on.wait()
        return "worked"

    def opened(*script: Any) -> Any:
        agent = Agent(agent_id="a", model=ScriptedChatModel([*script]), tools=(work,), mode="react")
        return segue.open(database, agents=[agent], clock=clock)

    async with opened(call_tool(("work", {}))) as app:
        await app.start("m", every="0 9 * * *", timezone="UTC", agent="a")
        clock.now += DAY
        await app.schedules.run_due()
        await began.wait()
        closing = asyncio.create_task(app.drain(60))
        await asyncio.sleep(0)
        goes_on.set()
        await closing
        assert [task.status for task in await app.tasks.list()] == ["paused"]
    async with opened(answer("one"), answer("two")) as app:
        await app.schedules.run_due()
        assert [task.status for task in await ended(app, 1)] == ["done"]
        clock.now += DAY
        await app.schedules.run_due()
        assert [(task.result or {})["answer"] for task in await ended(app, 2)] == ["one", "two"]


async def test_a_tenant_has_so_many_active_schedules(database: Path, clock: FixedClock) -> None:
    options = {"every": "0 9 * * *", "agent": "a"}
    async with segue.open(database, agents=[agent()], clock=clock, quotas=Quotas(schedules_per_tenant=1)) as app:
        first = await app.schedules.create("m", options, prefix="acme:")
        await app.schedules.create("m", options)
        for prefix in ("acme:", ""):
            with pytest.raises(InvalidMessage, match="1 schedules are active"):
                await app.schedules.create("m", options, prefix=prefix)
        await app.schedules.pause(first.schedule_id)
        await app.schedules.create("m", options, prefix="acme:")
        with pytest.raises(InvalidMessage, match="1 schedules are active"):
            await app.schedules.resume(first.schedule_id)


async def test_the_audit_log_says_who_made_and_changed_a_schedule(database: Path, clock: FixedClock) -> None:
    async with segue.open(database, agents=[agent()], clock=clock, audit=True) as app:
        with segue.acting("ann"):
            made = (await app.schedules.create("m", {"every": "0 9 * * *", "agent": "a"}, prefix="acme:")).schedule_id
            await app.schedules.pause(made)
            await app.schedules.resume(made)
            await app.schedules.delete(made)
        entries = await app.audit.list(session_prefix="acme:")
        acts = ["scheduled", "paused_schedule", "resumed_schedule", "deleted_schedule"]
        assert [entry.action for entry in reversed(entries)] == acts
        assert {entry.actor for entry in entries} == {"ann"}
        assert all(entry.details == {"schedule_id": made} for entry in entries)
        await app.ask("m", session_id="s", agent="a")
        await app.schedules.create("m", {"every": "0 9 * * *", "agent": "a", "session_id": "s"})
        await app.sessions.delete("s")
        assert [entry.action for entry in (await app.audit.list(session_id="s"))[:2]] == ["deleted", "deleted_schedule"]
        assert (await app.audit.verify()).ok


async def test_why_a_run_was_left_out_is_said_in_the_language_of_its_tasks(database: Path, clock: FixedClock) -> None:
    async with segue.open(database, agents=[agent()], clock=clock) as app:
        made = await app.schedules.create(
            "写一份报告", {"every": "0 9 * * *", "timezone": "UTC", "missed": "skip", "agent": "a"}
        )
        clock.now += DAY
        await app.schedules.run_due()
        assert (await app.schedules.get(made.schedule_id)).problem == "当时没有进程"


FILE = """
[[schedule]]
name = "weekly"
message = "{message}"
every = "0 9 * * mon"
agent = "a"
"""


async def test_the_schedules_of_a_file_are_as_the_file_says(database: Path, tmp_path: Path, clock: FixedClock) -> None:
    file = tmp_path / "agents.toml"

    async def kept(app: App, text: str) -> list[Schedule]:
        file.write_text(f'[[agent]]\nagent_id = "a"\n{text}')
        await app.schedules.keep(load_schedules(file))
        return [each for each in await app.schedules.list("file-") if ":" not in each.schedule_id]

    async with segue.open(database, agents=[agent()], clock=clock, audit=True) as app:
        app.agents.agents_file = str(file)
        own = [
            (await app.schedules.create("m", {"every": "0 9 * * *", "agent": "a"}, prefix=prefix)).schedule_id
            for prefix in ("", "file-tenant:")
        ]
        (made,) = await kept(app, FILE.format(message="Report."))
        assert (made.schedule_id, made.message, made.every) == ("file-weekly", "Report.", "0 9 * * mon")
        paused = await app.schedules.pause(made.schedule_id)
        clock.now += 8 * DAY
        assert await kept(app, FILE.format(message="Report.")) == [paused]
        (changed,) = await kept(app, FILE.format(message="Report more."))
        assert (changed.message, changed.is_active) == ("Report more.", 0)
        assert changed.due is not None and changed.due > clock.now
        app.agents.agents_file = str(file.with_name("moved.toml"))
        (moved,) = await kept(app, FILE.format(message="Report more."))
        assert moved == replace(changed, agents_file=str(file.with_name("moved.toml")))
        assert await kept(app, "") == []
        assert {each.schedule_id for each in await app.schedules.list()} == {*own}
        acts = [each.action for each in await app.audit.list(session_id=made.schedule_id)]
        assert acts == ["deleted_schedule", "moved_schedule", "changed_schedule", "paused_schedule", "scheduled"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (FILE.format(message="m") * 2, "more than one schedule 'weekly'"),
        (FILE.format(message="m") + "at = 5", "schedule 'weekly' in .*at: Extra inputs"),
        ("[schedule]\nname = 5", "list of tables"),
        (
            FILE.format(message="m") + "".join(f'memory_files.f{n} = "f.md"\n' for n in range(51)),
            "schedule 'weekly' in .*memory_files: .*at most 50 items",
        ),
    ],
)
def test_a_schedule_of_a_file_that_is_wrong_is_named(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "agents.toml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=match):
        load_schedules(file)


def agent() -> Agent:
    return Agent(agent_id="a", model=ScriptedChatModel(lambda _: "done"), mode="direct")


async def test_what_is_due_next_is_known(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock) as app:
        assert await app.schedules.next_due() is None
        for seconds in (60, 30):
            await app.start("m", at=BEGIN + seconds, agent="a")
        assert await app.schedules.next_due() == BEGIN + 30


async def test_what_cannot_be_sent_is_refused_when_it_is_stored(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock) as app:
        with pytest.raises(InvalidMessage, match="The message is empty"):
            await app.start(" ", at="18:00", agent="a")
        with pytest.raises(InvalidMessage, match="cannot have steer"):
            await app.start("m", at="18:00", agent="a", steer=True)
        with pytest.raises(InvalidMessage, match="has passed"):
            await app.start("m", at=BEGIN - 1, agent="a")
        with pytest.raises(UnknownAgent):
            await app.start("m", every="0 9 * * *", agent="nobody")
        assert await app.schedules.list() == []


async def test_an_idempotency_key_makes_one_schedule(database: Path, clock: FixedClock) -> None:
    async with open_app(database, clock) as app:
        made = [await app.start("m", at=BEGIN + 9, agent="a", idempotency_key="k") for _ in range(2)]
        assert made[0] == made[1] and len(await app.schedules.list()) == 1


# Schedules in processes that are killed: no run is lost, and none is started twice.


if TYPE_CHECKING:
    from tests.postgres import Cluster

SPEED = 240.0
"""Seconds of the schedules' clock in a second: a minute takes a quarter of one."""
RUNS, SECONDS = 8, 120.0
BACKENDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=BACKENDS)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        yield str(tmp_path / "segue.db")
        return
    cluster: Cluster = request.getfixturevalue("postgres")
    with cluster.database() as url:
        yield url


def clock_from(began: float) -> Any:
    return lambda: began + (time.time() - began) * SPEED


def reporter() -> Agent:
    return Agent(agent_id="a", model="offline", mode="direct")


def run(address: str, began: float, is_worker: bool) -> None:
    """A process that runs what is due until it is killed."""

    async def watch() -> None:
        async with segue.open(address, agents=[reporter()], clock=clock_from(began)) as app:
            if is_worker:
                await app.worker(4).run(1.0)
            app.schedules.watch()
            while True:  # as segue serve does
                for left in await app.tasks.resumable():
                    with suppress(SegueError):
                        await app.tasks.resume(left.task_id)
                await asyncio.sleep(0.3)

    asyncio.run(watch())


async def sessions(address: str) -> list[str]:
    """The sessions of the runs, which are named after their moments."""
    async with segue.open(address, agents=[reporter()]) as app:
        return [task.session_id for task in await app.tasks.list(limit=1000)]


def killed_again_and_again(address: str, began: float, is_worker: bool) -> Counter[str]:
    """The runs that two processes started, one of which is killed every other second."""
    rng, running, runs = random.Random(1), [], Counter[str]()
    ends = time.monotonic() + SECONDS
    while len(runs) < RUNS and time.monotonic() < ends:
        while len(running) < 2:
            process = SERVER.Process(target=run, args=(address, began, is_worker), daemon=True)
            process.start()
            running.append(process)
        time.sleep(rng.uniform(0.5, 2.5))
        victim = running.pop(rng.randrange(2))
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        runs = Counter(asyncio.run(sessions(address)))
    for process in running:
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    return Counter(asyncio.run(sessions(address)))


@pytest.mark.slow
def test_of_processes_that_are_killed_each_run_is_started_once(address: str) -> None:
    run_elsewhere(os.getpid)  # the server that processes are forked from is there
    began = time.time()

    async def begin() -> None:
        async with segue.open(address, agents=[reporter()], clock=lambda: began) as app:
            await app.start("What time is it?", every="* * * * *", missed="all", overlap="queue", agent="a")

    asyncio.run(begin())
    runs = killed_again_and_again(address, began, is_worker=address.startswith("postgresql"))
    assert len(runs) >= RUNS and set(runs.values()) == {1}
    moments = sorted(datetime.strptime(name[-15:], "%Y%m%dT%H%M%S") for name in runs)
    assert {later - before for before, later in pairwise(moments)} == {timedelta(minutes=1)}, "a run is missing"


@pytest.mark.slow
@pytest.mark.postgres
async def test_a_worker_takes_a_scheduled_message_and_a_task_whose_event_came(postgres: "Cluster") -> None:
    @segue.tool
    def sell() -> str:
        """Sell, and wait until it is paid."""
        raise segue.Wait("paid")

    began = time.time()
    now = [began]
    with postgres.database() as url:
        model = ScriptedChatModel([call_tool(("sell", {})), answer("Thanks.")])
        shop = Agent(agent_id="shop", model=model, tools=(sell,), mode="react")
        async with segue.open(url, agents=[shop], clock=lambda: now[0]) as app:
            working = asyncio.create_task((worker := app.worker(2)).run(1.0))
            made: Any = await app.start("Sell it.", at=began + 60, agent="shop", session_id="s")
            now[0] += 61
            while (task := await app.tasks.newest("s")) is None or task.status != "waiting":  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.05)
            await app.send_event(task.task_id, "paid", 5)
            while (ended := await app.task(task.task_id)).status != "done":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert (ended.result or {})["answer"] == "Thanks."
            assert (await app.schedules.get(made.schedule_id)).last_task == task.task_id
            worker.stop()
            await working
