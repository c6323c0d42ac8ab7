"""How many tasks run at once, and what the others do meanwhile."""

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import segue
from segue.app import App
from segue.core.agents import Agent
from segue.core.errors import ConfigurationError, TooManyTasks
from tests.fakes import ScriptedChatModel, answer, call_tool
from tests.polling import until


class Work:
    """A synchronous tool that is held until the gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun: list[int] = []
        self.most = 0
        self._running = 0
        self._lock = threading.Lock()

    def work(self, number: int) -> int:
        """Do the work of that number."""
        with self._lock:
            self.begun.append(number)
            self._running += 1
            self.most = max(self.most, self._running)
        self.gate.wait(30)
        with self._lock:
            self._running -= 1
        return number


@asynccontextmanager
async def working(count: int, running: int, queued: int = 100) -> AsyncIterator[tuple[App, Work, list[str]]]:
    """An app that runs so many tasks, each under an agent of its own."""
    held = Work()
    async with segue.open(":memory:", max_running=running, max_queued=queued) as app:
        for number in range(count):
            script = [call_tool(("work", {"number": number})), answer("ok")]
            app.register(
                Agent(agent_id=f"a{number}", model=ScriptedChatModel(script), tools=(held.work,), mode="react")
            )
        started = [await app.start("go", agent=f"a{number}") for number in range(count)]
        try:
            yield app, held, [row.task_id for row in started]
        finally:
            held.gate.set()


async def ended(app: App, task_id: str) -> str:
    async for _ in app.follow(task_id):
        pass
    return str((await app.task(task_id)).status)


@pytest.mark.slow
async def test_many_tasks_use_few_threads_and_descriptors_and_run_in_their_order() -> None:
    before, others = len(os.listdir("/proc/self/fd")), {*threading.enumerate()}
    async with working(12, running=3) as (app, held, tasks):
        await until(lambda: len(held.begun) == 3)
        names = [thread.name for thread in threading.enumerate() if thread not in others]
        assert sum(name.startswith("tool") for name in names) == 3
        assert names.count("segue-heartbeat") == 1
        assert len(os.listdir("/proc/self/fd")) - before < 40
        assert [(await app.task(task_id)).status for task_id in tasks] == ["running"] * 3 + ["pending"] * 9
        assert len(app.tasks.running()) == 12
        held.gate.set()
        assert {await ended(app, task_id) for task_id in tasks} == {"done"}
        assert held.most <= 3
        assert held.begun[:3] + sorted(held.begun[3:]) == [*sorted(held.begun[:3]), *range(3, 12)]


async def test_a_task_in_the_queue_can_be_paused_cancelled_and_resumed() -> None:
    async with working(3, running=1) as (app, held, tasks):
        await until(lambda: held.begun)
        await app.pause(tasks[1])
        assert await ended(app, tasks[1]) == "paused"
        await app.cancel(tasks[2])
        assert (await app.task(tasks[2])).status == "cancelled"
        held.gate.set()
        assert (await app.resume(tasks[1]))["answer"] == "ok"
        assert await ended(app, tasks[0]) == "done"
        assert held.begun == [0, 1]


async def test_a_full_queue_refuses_new_messages_and_stores_nothing() -> None:
    async with working(2, running=1, queued=1) as (app, held, tasks):
        with pytest.raises(TooManyTasks, match="1 running and 1 queued"):
            await app.start("go", agent="a0", session_id="late")
        assert await app.tasks.list(session_id="late") == []
        held.gate.set()
        assert [await ended(app, task_id) for task_id in tasks] == ["done", "done"]


async def test_a_task_that_another_one_starts_needs_no_place() -> None:
    async with segue.open(":memory:", max_running=1) as app:

        async def delegate(question: str) -> str:
            """Ask the other agent."""
            return str((await app.ask(question, agent="inner"))["answer"])

        app.register(Agent(agent_id="inner", model=ScriptedChatModel([answer("42")]), mode="react"))
        script = [call_tool(("delegate", {"question": "?"})), answer("done")]
        app.register(Agent(agent_id="outer", model=ScriptedChatModel(script), tools=(delegate,), mode="react"))
        assert (await app.ask("go", agent="outer"))["answer"] == "done"


async def test_the_environment_sets_how_many_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEGUE_MAX_RUNNING", "none")
    with pytest.raises(ConfigurationError, match="SEGUE_MAX_RUNNING must be a whole number of at least 1, not 'none'"):
        async with segue.open(":memory:"):
            pass
