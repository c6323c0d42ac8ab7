"""Schedules in processes that are killed: no run is lost, and none is started twice."""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import segue
from segue.core.agents import Agent
from segue.core.errors import SegueError
from tests.cli.process import SERVER, run_elsewhere
from tests.fakes import ScriptedChatModel, answer, call_tool

if TYPE_CHECKING:
    from tests.postgres import Cluster

pytestmark = pytest.mark.slow
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


def agent() -> Agent:
    return Agent(agent_id="a", model="offline", mode="direct")


def run(address: str, began: float, is_worker: bool) -> None:
    """A process that runs what is due until it is killed."""

    async def watch() -> None:
        async with segue.open(address, agents=[agent()], clock=clock_from(began)) as app:
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
    async with segue.open(address, agents=[agent()]) as app:
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


def test_of_processes_that_are_killed_each_run_is_started_once(address: str) -> None:
    run_elsewhere(os.getpid)  # the server that processes are forked from is there
    began = time.time()

    async def begin() -> None:
        async with segue.open(address, agents=[agent()], clock=lambda: began) as app:
            await app.start("What time is it?", every="* * * * *", missed="all", overlap="queue", agent="a")

    asyncio.run(begin())
    runs = killed_again_and_again(address, began, is_worker=address.startswith("postgresql"))
    assert len(runs) >= RUNS and set(runs.values()) == {1}
    moments = sorted(datetime.strptime(name[-15:], "%Y%m%dT%H%M%S") for name in runs)
    assert {later - before for before, later in pairwise(moments)} == {timedelta(minutes=1)}, "a run is missing"


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
